"""95 % confidence intervals: percentile bootstrap, Wilson for fractions, Student for few values.

Efron and Tibshirani, An Introduction to the Bootstrap, 1993, chapter 13; for error rates Bisani and Ney, ICASSP 2004.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sonorant.errors import SonorantError

SEED = 1
LEAST = 20
"""Minimum number of sentences for an interval; with fewer, a bootstrap is far too narrow."""
Z = 1.959964


def bootstrap(
    statistic: Callable[..., Any], *values: NDArray[Any], resamples: int = 1000, seed: int = SEED
) -> tuple[float, float]:
    """Return the 95 % percentile interval of `statistic(*values)`, resampling the entries of values (U,).

    `statistic` takes an argument `axis`, like np.mean and `rate`.
    """
    drawn = np.random.default_rng(seed).integers(0, len(values[0]), size=(resamples, len(values[0])))
    low, high = np.percentile(statistic(*(each[drawn] for each in values), axis=1), [2.5, 97.5])
    return float(low), float(high)


def crossed_bootstrap(
    values: NDArray[np.float64], *, resamples: int, rows: bool, seed: int = SEED
) -> tuple[float, float]:
    """Return the 95 % percentile interval of the mean of ratings (listeners, sentences), where NaN means missing.

    Resamples columns and, if `rows`, also rows. Owen, The pigeonhole bootstrap, Annals of Applied Statistics 1, 2007.
    """
    random = np.random.default_rng(SEED)
    drawn_RL, drawn_RS = (
        random.multinomial(size, np.full(size, 1 / size), resamples) if draw else np.ones((resamples, size))
        for size, draw in zip(values.shape, (rows, True), strict=True)
    )
    total, weight = (
        ((drawn_RL @ part) * drawn_RS).sum(axis=1) for part in (np.nan_to_num(values), np.isfinite(values))
    )
    low, high = np.percentile(total[weight > 0] / weight[weight > 0], [2.5, 97.5])
    return float(low), float(high)


def rate(errors: NDArray[np.int64], totals: NDArray[np.int64], axis: int | None = None) -> Any:
    """Return the error rate of a corpus in percent, or in percentage points if `errors` are differences."""
    return 100.0 * errors.sum(axis=axis) / totals.sum(axis=axis)


def check_enough(sentences: float) -> None:
    if sentences < LEAST:
        raise SonorantError(
            f"only {sentences:.0f} sentences, but a 95 % interval requires at least {LEAST}; evaluate more"
        )


def wilson_interval(events: float, trials: int) -> tuple[float, float]:
    """Return the 95 % score interval of a fraction (Wilson 1927). Ties may count as half an event."""
    fraction, middle = events / trials, 1 + Z**2 / trials
    centre = (fraction + Z**2 / (2 * trials)) / middle
    half = Z / middle * math.sqrt(fraction * (1 - fraction) / trials + Z**2 / (4 * trials**2))
    return max(0.0, centre - half), min(1.0, centre + half)


def student_interval(differences: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % interval of the mean of a few differences, such as between seeds (Student, Biometrika 1908)."""
    from scipy.stats import t  # not needed for synthesis

    values = np.asarray(differences, dtype=np.float64)
    half = float(t.ppf(0.975, len(values) - 1)) * float(values.std(ddof=1)) / math.sqrt(len(values))
    return float(values.mean()) - half, float(values.mean()) + half
