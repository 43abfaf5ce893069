"""Training of the codec with a waveform model's spectral losses and a loss on the decoded pitch."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn

from sonorant.checked import Count, Share
from sonorant.extras.codec_lm.codec import Codec, CodecConfig
from sonorant.extras.codec_lm.source_codec import SourceCodec, pitch_distance
from sonorant.layers.discriminators import Discriminators
from sonorant.training.initial import Initial, Taken
from sonorant.training.recipe import Term
from sonorant.training.waveform import GeneratorLosses, WaveformRecipe, WaveformTrainConfig

PITCH_WEIGHT = 4.0
"""Weight of the pitch loss, in addition to `WaveformTrainConfig.weights`."""


@dataclass(frozen=True, kw_only=True)
class CodecTrainConfig(WaveformTrainConfig):
    steps: Count = 4000
    learning_rate: Share = 3e-3
    learning_rate_batch: Count | None = 8
    segments_per_micro_batch: Count | Literal["auto"] = 4
    adversarial: bool = False
    validate_every: Count = 500
    checkpoint_every: Count = 400


class CodecLosses(GeneratorLosses):
    """Computes the losses of a waveform model and, with a source, `pitch`: the error of the decoded pitch, summed over
    segments."""

    def copy(self, frames_BRT: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        if not isinstance(self.model, SourceCodec):
            return super().copy(frames_BRT)
        samples_BS, said_BDT = self.model.copy(frames_BRT)
        return samples_BS, {"pitch": pitch_distance(said_BDT, frames_BRT, self.model.mels)}


class CodecRecipe(WaveformRecipe):
    """Recipe of codec training. The micro-batch's seed determines codebook dropout."""

    name = "codec"
    sizes = CodecConfig
    settings = CodecTrainConfig

    def _losses(self, model: nn.Module, adversaries: Discriminators | None) -> CodecLosses:
        return CodecLosses(model, self.store.audio, self.config, adversaries)

    def _terms(self, names: Sequence[str], model: nn.Module) -> dict[str, Term]:
        terms = super()._terms(names, model)
        return terms | {"pitch": Term(PITCH_WEIGHT, "segments")} if isinstance(model, SourceCodec) else terms

    def _copy(self, model: nn.Module, frames_BRT: Tensor) -> Tensor:
        assert isinstance(model, Codec)
        return model.decode(model.encode(frames_BRT))[:, : frames_BRT.shape[2] * self.store.audio.hop]

    def start_from(self, initial: Initial) -> Taken:
        taken = super().start_from(initial)
        self._description |= {key: initial.description[key] for key in ("mel_mean", "mel_std")}
        return taken
