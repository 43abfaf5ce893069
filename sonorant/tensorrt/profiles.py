"""The ranges of sizes that engines are made for, after how long the corpus' utterances are. Knows nothing of TensorRT."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sonorant.runtime.buckets import MULTIPLE
from sonorant.runtime.bundle import Lengths

LEAST = {"tokens": 2, "frames": 1}
"""Every utterance has a start and an end token."""
STRETCH = 2
"""How far beyond the corpus' longest utterance engines reach: the slowest speed doubles the frames."""
MOST = {"tokens": 800, "frames": 1024}
"""What engines reach in any case, however short the corpus: twice the characters of the longest piece that a text is spoken in
(`sonorant.text.pieces`), and twice the frames that are computed at once (`sonorant.runtime.limits`), for those around them."""

Sizes = tuple[int, int, int]
"""Least, tuned for, most."""


@dataclass(frozen=True, kw_only=True)
class Profile:
    """Sizes that one optimisation profile covers."""

    batch: Sizes
    """Rows."""
    tokens: Sizes
    """Phoneme ids of a row."""
    frames: Sizes
    """Mel frames of a row."""

    def covers(self, sizes: Mapping[str, int]) -> bool:
        """Whether all of the sizes, by dimension, lie in the profile."""
        return all(getattr(self, name)[0] <= size <= getattr(self, name)[2] for name, size in sizes.items())


def profiles_of(graph: str, lengths: Lengths, max_batch: int) -> tuple[Profile, Profile]:
    """A graph's two profiles: for the usual utterance, tuned for the median, and for long ones, tuned for the longest.

    They hold the buckets that requests are padded to, so that one of the usual length meets the profile that is tuned for it.
    """
    tokens, frames = _ranges("tokens", lengths.tokens), _ranges("frames", lengths.frames)
    if graph == "decoder":  # its tokens are only looked up, and always padded to the largest bucket
        tokens = tokens[1], tokens[1]
    usual, long = (Profile(batch=(1, 1, max_batch), tokens=of[0], frames=of[1]) for of in zip(tokens, frames, strict=True))
    return usual, long


def _ranges(name: str, lengths: tuple[int, int, int, int]) -> tuple[Sizes, Sizes]:
    _, median, p95, longest = (-(-length // MULTIPLE) * MULTIPLE for length in lengths)
    return (LEAST[name], median, p95), (LEAST[name], longest, max(longest * STRETCH, MOST[name]))
