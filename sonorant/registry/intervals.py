"""The 95 % interval of a statistic over sentences. Knows nothing of what was measured in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sonorant.errors import SonorantError

RESAMPLES = 2000
LEAST = 20
"""Sentences behind an interval. Drawn from a few, it is far too narrow: from one, it has no width at all."""
SEED = 1
"""Of the bootstrap: the same values give the same interval."""


def bootstrap(values: NDArray[np.float64], statistic: Callable[..., Any]) -> tuple[float, tuple[float, float]]:
    """The statistic (np.mean, np.median) of values (S,), one a sentence, and its percentile interval; sentences are
    drawn with replacement.

    Of differences or ratios within sentences this is a paired bootstrap (Efron and Tibshirani, An Introduction to the
    Bootstrap, 1993, chapter 13). Raises SonorantError as `check_enough`.
    """
    check_enough(len(values))
    drawn = np.random.default_rng(SEED).integers(0, len(values), size=(RESAMPLES, len(values)))
    low, high = np.percentile(statistic(values[drawn], axis=1), [2.5, 97.5])
    return float(statistic(values, axis=0)), (float(low), float(high))


def check_enough(sentences: float) -> None:
    """Raises SonorantError if there are fewer sentences than an interval can be drawn from."""
    if sentences < LEAST:
        raise SonorantError(f"only {sentences:.0f} sentences, a 95 % interval needs at least {LEAST}")
