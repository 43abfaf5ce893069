"""How the codec learns: as the vocoder does, with finite scalar quantisation in its middle. Knows nothing of ranks or steps."""

from __future__ import annotations

from dataclasses import dataclass

from sonorant.models.codec import CodecConfig
from sonorant.training.initial import Initial, Taken
from sonorant.training.vocoder import VocoderRecipe, VocoderTrainConfig


@dataclass(frozen=True, kw_only=True)
class CodecTrainConfig(VocoderTrainConfig):
    """Training of the codec: what training the vocoder takes."""


class CodecRecipe(VocoderRecipe):
    """The codec with its features: mel in, samples out, and the vocoder's losses; implements `Recipe`.

    Which streams a row loses is drawn in the model, from the seed of the micro-batch, as all randomness is.
    """

    name = "codec"
    sizes = CodecConfig
    settings = CodecTrainConfig

    def start_from(self, initial: Initial) -> Taken:
        """As the vocoder, with the statistics of the mel that the weights were trained with: they speak in their units."""
        taken = super().start_from(initial)
        self._description |= {key: initial.description[key] for key in ("mel_mean", "mel_std")}
        return taken
