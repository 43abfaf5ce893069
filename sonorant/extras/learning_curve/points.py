"""Points of a learning curve: several seeds per size (minutes of recordings), evaluated on the same sentences.

Resamples vary both seeds and sentences. The same sentences are drawn for all sizes, so a hard sentence cancels in
differences. The spread of the seeds is pooled over the sizes and drawn from Student's distribution (Student, Biometrika
1908), because a bootstrap of three seeds would understate it by half.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sonorant.audio.arrays import Doubles
from sonorant.errors import SonorantError
from sonorant.training.intervals import Z

RESAMPLES = 2000
SEED = 1
"""Seed of the resampling, for reproducible intervals."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """Results for one size, in minutes of recordings."""

    minutes: float
    values: tuple[float, ...]
    """Value of the metric for each seed."""
    intervals: tuple[tuple[float, float], ...] = ()
    """95 % intervals over sentences, one per seed; may be empty."""
    parts: tuple[Doubles, ...] = ()
    """Numerator and denominator of each sentence (S, 2), one array per seed; the metric is the ratio of their sums."""

    @property
    def mean(self) -> float:
        return float(np.mean(self.values))


def paired(points: Sequence[Point]) -> bool:
    """Return whether all points have per-sentence values of the same sentences."""
    shapes = {part.shape for point in points for part in point.parts}
    return len(shapes) == 1 and all(len(point.parts) == len(point.values) for point in points)


def resampled(points: Sequence[Point], resamples: int = RESAMPLES) -> Doubles:
    """Return the mean of each size (R, P) for resampled seeds and sentences. Raises SonorantError if no size has two
    seeds."""
    random = np.random.default_rng(SEED)
    return _other_sentences(points, resamples, random) + _other_seeds(points, resamples, random)


def _other_sentences(points: Sequence[Point], resamples: int, random: np.random.Generator) -> Doubles:
    """Draw means (resamples, sizes) of resampled sentences. Without per-sentence values, each size is drawn
    independently, which widens the intervals of differences."""
    if not paired(points):
        half_P = np.array([np.mean(np.diff(point.intervals)) / 2 if point.intervals else 0.0 for point in points])
        means_P = np.array([point.mean for point in points])
        return means_P + half_P / Z * random.standard_normal((resamples, len(points)))
    sentences = len(points[0].parts[0])
    drawn_RS = random.multinomial(sentences, np.full(sentences, 1 / sentences), resamples).astype(np.float64)
    means = []
    for point in points:
        sums_KR2 = np.stack([drawn_RS @ part for part in point.parts])
        means.append((sums_KR2[..., 0] / sums_KR2[..., 1]).mean(axis=0))
    return np.stack(means, axis=1)


def _other_seeds(points: Sequence[Point], resamples: int, random: np.random.Generator) -> Doubles:
    """Draw the errors of the means due to the seeds, (resamples, sizes)."""
    counts_P = np.array([len(point.values) for point in points])
    free = int((counts_P - 1).sum())
    if free == 0:
        raise SonorantError("results vary by seed, so one is not enough; give at least two (--seeds)")
    spread = sum(float(np.square(np.subtract(point.values, point.mean)).sum()) for point in points) / free
    deviation_R1 = np.sqrt(spread * free / random.chisquare(free, (resamples, 1)))
    return deviation_R1 / np.sqrt(counts_P) * random.standard_normal((resamples, len(points)))


def interval(values_R: Doubles) -> tuple[float, float]:
    """Return the central 95 % interval of the resamples."""
    low, high = np.percentile(values_R, [2.5, 97.5])
    return float(low), float(high)


def excludes_zero(ends: tuple[float, float]) -> bool:
    return not ends[0] <= 0.0 <= ends[1]
