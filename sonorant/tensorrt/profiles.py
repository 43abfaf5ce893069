"""The sizes that engines are made for, after how long the corpus' utterances are. Knows nothing of TensorRT.

A profile is a range of sizes with the one it is tuned for; a bucket is a size that smaller ones are padded to, so that a few CUDA graphs
serve all lengths. Padding is exact in these graphs: a padded row equals the row alone.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sonorant.runtime.bundle import Lengths

SHORTEST = {"batch": 1, "tokens": 2, "frames": 1}
"""The least of each dimension; every utterance has a start and an end token."""
STRETCH = 2
"""How far beyond the corpus' longest utterance engines reach: the slowest speed doubles the frames."""


@dataclass(frozen=True, kw_only=True)
class Profile:
    """Sizes that one optimisation profile covers: dimension to (least, tuned for, most)."""

    batch: tuple[int, int, int]
    """Rows."""
    tokens: tuple[int, int, int]
    """Phoneme ids of a row."""
    frames: tuple[int, int, int]
    """Mel frames of a row."""

    def covers(self, sizes: Mapping[str, int]) -> bool:
        """Whether all of the sizes named lie in the profile."""
        return all(getattr(self, name)[0] <= size <= getattr(self, name)[2] for name, size in sizes.items())


def profiles_of(lengths: Lengths, max_batch: int) -> tuple[Profile, ...]:
    """Two profiles: for the usual utterance, tuned for the median, and for long ones, tuned for the longest."""

    def profile(tuned: int, most: int, factor: int) -> Profile:
        def sizes(name: str) -> tuple[int, int, int]:
            corpus = getattr(lengths, name)
            least, longest = SHORTEST[name], max(SHORTEST[name], corpus[most] * factor)
            return least, min(max(least, corpus[tuned]), longest), longest

        return Profile(batch=(1, 1, max_batch), tokens=sizes("tokens"), frames=sizes("frames"))

    return profile(tuned=1, most=2, factor=1), profile(tuned=3, most=3, factor=STRETCH)


@dataclass(frozen=True)
class Buckets:
    """Sizes of tokens and of frames that are padded to, ascending."""

    tokens: tuple[int, ...]
    frames: tuple[int, ...]

    @classmethod
    def of(cls, lengths: Lengths) -> Buckets:
        """A quarter and a half of the median (parts of a stream), median, 95th percentile, longest, and the engines' most."""

        def ladder(name: str) -> tuple[int, ...]:
            _, median, p95, longest = getattr(lengths, name)
            return tuple(
                sorted({max(SHORTEST[name], n) for n in (median // 4, median // 2, median, p95, longest, longest * STRETCH)})
            )

        return cls(ladder("tokens"), ladder("frames"))

    def padded(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """Each size raised to its bucket; what no bucket holds stays as it is, and so do several rows."""
        return {name: next((bucket for bucket in self.ladder(name) if bucket >= size), size) for name, size in sizes.items()}

    def combinations(self, names: Sequence[str]) -> list[dict[str, int]]:
        """Every bucket of the dimensions named, a single row each, the largest first."""
        grid = itertools.product(*(self.ladder(name) for name in names))
        return [dict(zip(names, sizes, strict=True)) for sizes in sorted(grid, key=math.prod, reverse=True)]

    def ladder(self, name: str) -> tuple[int, ...]:
        """The buckets of a dimension, ascending; rows have one: a single row."""
        return {"batch": (1,), "tokens": self.tokens, "frames": self.frames}[name]
