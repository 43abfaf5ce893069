"""How well a model does on utterances, one figure an utterance, so that two models can be compared in pairs.

Knows nothing of quantisation: it is given models.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from sonorant.data.batches import Batch, SegmentBatches
from sonorant.data.plan import MicroBatch
from sonorant.families.codec_lm.language_model import LanguageModel
from sonorant.families.codec_lm.pretrained_codec import PretrainedCodec
from sonorant.families.codec_lm.training import LanguageModelLosses, LanguageModelRecipe
from sonorant.families.parallel.acoustic import AcousticModel
from sonorant.families.parallel.training import AcousticRecipe
from sonorant.layers.alignment import align
from sonorant.training.recipe import Recipe, weighted
from sonorant.training.waveform import VocoderRecipe

DECIBELS = 20.0 / np.log(10.0)
"""Of a step of one in the natural logarithm of a magnitude."""
SEED = 1
"""Of what a flow decoder's loss draws: the same model gives the same figures."""


WRONG_CODES = "wrong_codes_percent"
"""Codes of the recording, percent, that a language model told all before them takes another one for likelier."""
LOG_MEL_DB = "log_mel_db"
"""Mean distance to the recording's log-mel in dB; of an acoustic model with the durations the float model finds in the
recording."""


@dataclass(frozen=True)
class Judged:
    """Figures of a model, one an utterance: (U,) float64."""

    loss: NDArray[np.float64]
    """What its training makes small, on this utterance alone."""
    error: NDArray[np.float64]
    """What a person can imagine, in the unit of `measure`; the less the better."""
    measure: str
    """Its name, such as `LOG_MEL_DB`."""


class AcousticJudge:
    """Judges acoustic models on whole utterances; see `judge_of`."""

    def __init__(self, recipe: AcousticRecipe, model: AcousticModel, items: NDArray[np.int64]) -> None:
        """`model` is the float model, whose alignment with the recordings gives the durations that all are judged
        with."""
        recipe.diagonal_steps = 0
        self.recipe = recipe
        self.batches = list(_alone(recipe, items))
        with torch.no_grad():
            self.ends = [self._ends(model, batch) for _, batch in self.batches]

    def run(self, model: nn.Module) -> None:
        """Send the utterances' texts through the model, as speaking does."""
        for _, batch in self.batches:
            model.synthesize(batch["tokens"], batch["token_lengths"], batch["speaker"], torch.ones(1))  # type: ignore[operator]

    @torch.no_grad()
    def __call__(self, model: nn.Module) -> Judged:
        """Judge a model in evaluation mode."""
        assert isinstance(model, AcousticModel)
        phase = self.recipe.losses(model)
        losses, distances = [], []
        for (planned, batch), ends_BN in zip(self.batches, self.ends, strict=True):
            torch.manual_seed(SEED)
            losses.append(float(weighted(phase, phase.module(batch, 0), self.recipe.units(planned))))
            encoded = model.encode(batch["tokens"], batch["token_lengths"], batch["speaker"])
            states_BNC = encoded.states_BNC + model.speaker(batch["speaker"])[:, None]
            mel_BMT = model.decode(states_BNC, ends_BN, torch.arange(int(ends_BN[0, -1])))
            distances.append(float((mel_BMT[0].T - batch["mel"][0, : mel_BMT.shape[2]]).abs().mean()) * DECIBELS)
        return Judged(np.array(losses), np.array(distances), LOG_MEL_DB)

    def _ends(self, model: AcousticModel, batch: Batch) -> torch.Tensor:
        encoded = model.encode(batch["tokens"], batch["token_lengths"], batch["speaker"])
        mel_BTM = model.normalize(batch["mel"])
        lengths = batch["token_lengths"], batch["mel_lengths"]
        return align(encoded.prior_BNM.float(), mel_BTM, *lengths).cumsum(1)


class VocoderJudge:
    """Judges vocoders on whole utterances; see `judge_of`."""

    def __init__(self, recipe: VocoderRecipe, items: NDArray[np.int64]) -> None:
        self.recipe = recipe
        self.batches = list(_whole(recipe, items))

    def run(self, model: nn.Module) -> None:
        """Send the utterances' mels through the model."""
        for batch in self.batches:
            _sounding(model, batch)(batch["mel"])

    @torch.no_grad()
    def __call__(self, model: nn.Module) -> Judged:
        """Judge a model in evaluation mode."""
        phase = self.recipe.losses(model)
        summed = [self.recipe.losses(_sounding(model, batch)).module(batch, 0) for batch in self.batches]
        losses = [float(weighted(phase, one, {"segments": 1.0})) for one in summed]
        return Judged(np.array(losses), np.array([float(one["mel"]) for one in summed]) * DECIBELS, LOG_MEL_DB)


class _Copying(nn.Module):
    """A pretrained codec, which hears samples, in the place of a model that hears the mel of one utterance."""

    def __init__(self, codec: PretrainedCodec, samples_S: NDArray[np.float32]) -> None:
        super().__init__()
        self.codec = codec
        self.samples_S = samples_S

    def forward(self, mel_BMT: torch.Tensor) -> torch.Tensor:
        codes_FG = self.codec.encode_utterance(mel_BMT[0].numpy(), self.samples_S)
        return self.codec.decode(torch.from_numpy(codes_FG)[None])[:, : len(self.samples_S)]


def _sounding(model: nn.Module, batch: Batch) -> nn.Module:
    """What makes samples of the mel of a batch of one utterance."""
    return _Copying(model, batch["samples"][0].numpy()) if isinstance(model, PretrainedCodec) else model


class LanguageModelJudge:
    """Judges language models on whole utterances, each step told the recording's codes before it; see `judge_of`."""

    def __init__(self, recipe: LanguageModelRecipe, model: LanguageModel, items: NDArray[np.int64]) -> None:
        """`model` is the float model, whose alignment with the recordings gives the durations that all are judged
        with."""
        recipe.diagonal_steps = 0
        self.recipe = recipe
        with torch.no_grad():
            aligned = [(planned, batch, self._losses(model).predict(batch)) for planned, batch in _alone(recipe, items)]
        self.batches = [(planned, batch | {"durations": said.durations_BN}) for planned, batch, said in aligned]

    def run(self, model: nn.Module) -> None:
        """Send the utterances through the model."""
        for _, batch in self.batches:
            self._losses(model).predict(batch)

    @torch.no_grad()
    def __call__(self, model: nn.Module) -> Judged:
        """Judge a model in evaluation mode."""
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


Judge = AcousticJudge | VocoderJudge | LanguageModelJudge


def judge_of(recipe: Any, model: nn.Module, items: NDArray[np.int64]) -> Judge:
    """The judge for the models of a recipe on utterances `items` of its store; `model` is the float one."""
    if isinstance(recipe, AcousticRecipe):
        return AcousticJudge(recipe, cast(AcousticModel, model), items)
    if isinstance(recipe, LanguageModelRecipe):
        return LanguageModelJudge(recipe, cast(LanguageModel, model), items)
    return VocoderJudge(recipe, items)


def _alone(recipe: Recipe, items: NDArray[np.int64]) -> Iterator[tuple[MicroBatch, Batch]]:
    """Each utterance by itself, in evaluation's order."""
    planned = [MicroBatch(0, 0, item[None]) for item in items]
    batches: Any = recipe.dataset(planned)
    for number, one in enumerate(planned):
        yield one, batches[number]


def _whole(recipe: VocoderRecipe, items: NDArray[np.int64]) -> Iterator[Batch]:
    for item in items:
        whole = MicroBatch(0, 0, item[None], np.zeros(1, np.int64))
        yield SegmentBatches(recipe.store, [whole], int(recipe.store.frames[item]))[0]
