"""The two families of voice: what each is made of and what its parts are called. Knows nothing of models, graphs or
settings' files.

parallel: an acoustic model computes the whole mel at once, a vocoder makes it sound. codec_lm: a language model speaks
a codec's codes one frame after the other, the codec's decoder makes them sound. The same stages make both:
`train_predictor` trains the model that predicts from text,
`train_waveform` the one that makes the waveform."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Family = Literal["parallel", "codec_lm"]


@dataclass(frozen=True, kw_only=True)
class VoiceConfig:
    """Which family a voice is of: section `voice` of the settings."""

    family: Family
    """A key of `FAMILIES`."""


@dataclass(frozen=True, kw_only=True)
class FamilyParts:
    """What a voice of a family is made of."""

    predictor: str
    """Kind of the model that predicts from text, as its `model.json` names it; also its section of the settings, and
    train_<predictor>."""
    waveform: str
    """Kind of the model that makes the waveform, named likewise."""
    graphs: tuple[str, ...]
    """Names of a bundle's graphs, in the order of a synthesis."""
    runs_away: bool
    """Whether how long it speaks is decided while it speaks, so that it may not end; it is guarded, and judged by how
    often."""


FAMILIES: dict[str, FamilyParts] = {
    "parallel": FamilyParts(
        predictor="acoustic", waveform="vocoder", graphs=("encoder", "decoder", "vocoder"), runs_away=False
    ),
    "codec_lm": FamilyParts(
        predictor="language_model", waveform="codec", graphs=("encoder", "prefill", "step", "vocoder"), runs_away=True
    ),
}
