"""Losses of a codec language model or its codec on utterances, to judge quantisation."""

from typing import cast

import numpy as np
import torch
from torch import Tensor, nn

from sonorant.audio.arrays import Floats, Ints
from sonorant.export.quantization.utterance_losses import Judged, WaveformJudge, alone
from sonorant.extras.codec_lm.language_model import LanguageModel
from sonorant.extras.codec_lm.language_model_training import LanguageModelLosses, LanguageModelRecipe
from sonorant.extras.codec_lm.pretrained_codec import PretrainedCodec
from sonorant.features.batches import Batch
from sonorant.training.recipe import weighted

WRONG_CODES = "wrong_codes_percent"
"""Percentage of codes that a teacher-forced language model does not rank first."""


class LanguageModelJudge:
    """Judges language models, teacher-forced on whole utterances."""

    def __init__(self, recipe: LanguageModelRecipe, model: LanguageModel, items: Ints) -> None:
        """`model` is the float model, whose alignment sets the durations for all models."""
        recipe.diagonal_steps = 0
        self.recipe = recipe
        with torch.no_grad():
            aligned = [(planned, batch, self._losses(model).predict(batch)) for planned, batch in alone(recipe, items)]
        self.batches = [(planned, batch | {"durations": said.durations_BN}) for planned, batch, said in aligned]

    def run(self, model: nn.Module) -> None:
        for _, batch in self.batches:
            self._losses(model).predict(batch)

    @torch.no_grad()
    def __call__(self, model: nn.Module) -> Judged:
        losses, phase = self._losses(model), self.recipe.losses(model)
        summed, wrong = [], []
        for planned, batch in self.batches:
            said = losses.predict(batch)
            summed.append(float(weighted(phase, losses.judge(said, batch), self.recipe.units(planned))))
            real_BTG = said.codes_BTG >= 0
            wrong.append(100.0 * float((said.logits_BTGK.argmax(3) != said.codes_BTG)[real_BTG].float().mean()))
        return Judged(np.array(summed), np.array(wrong), WRONG_CODES)

    def _losses(self, model: nn.Module) -> LanguageModelLosses:
        return cast(LanguageModelLosses, self.recipe.losses(model).module)


class CodecJudge(WaveformJudge):
    """Judges codecs. A pretrained codec receives samples instead of the mel."""

    def sounding(self, model: nn.Module, batch: Batch) -> nn.Module:
        return _Copying(model, batch["samples"][0].numpy()) if isinstance(model, PretrainedCodec) else model


class _Copying(nn.Module):
    """Encodes and decodes the samples of one utterance with a pretrained codec, instead of the mel passed in."""

    def __init__(self, codec: PretrainedCodec, samples_S: Floats) -> None:
        super().__init__()
        self.codec = codec
        self.samples_S = samples_S

    def forward(self, mel_BMT: Tensor) -> Tensor:
        codes_FG = self.codec.encode_utterance(mel_BMT[0].numpy(), self.samples_S)
        return self.codec.decode(torch.from_numpy(codes_FG)[None])[:, : len(self.samples_S)]
