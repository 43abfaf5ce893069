"""The two families of voice: what each is made of and what its parts are called. Knows nothing of models, graphs or
settings' files.

parallel: an acoustic model computes the whole mel at once, a vocoder makes it sound. codec_lm: a language model speaks
a codec's codes one frame after the other, the codec's decoder makes them sound. The same stages make both:
`train_acoustic` trains what speaks,
`train_vocoder` what sounds."""

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

    speech: str
    """Kind of the model that speaks, as its `model.json` names it; also its section of the settings, and
    train_<speech>."""
    sound: str
    """The same of the model that makes sound."""
    graphs: tuple[str, ...]
    """Names of a bundle's graphs, in the order of a synthesis."""
    runs_away: bool
    """Whether how long it speaks is decided while it speaks, so that it may not end; it is guarded, and judged by how
    often."""


FAMILIES: dict[str, FamilyParts] = {
    "parallel": FamilyParts(
        speech="acoustic", sound="vocoder", graphs=("encoder", "decoder", "vocoder"), runs_away=False
    ),
    "codec_lm": FamilyParts(
        speech="language_model", sound="codec", graphs=("encoder", "prefill", "step", "vocoder"), runs_away=True
    ),
}
