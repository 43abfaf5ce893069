"""Alternating timing of several ways to do the same.

Other work on the machine affects all of them alike, so ratios are taken per round. Noise is estimated from blocks of
consecutive rounds, whose medians differ as much as those of two runs would. `CONTROL` is a fixed piece of arithmetic
timed in every round; it shows whether the machine itself was slower in another run.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sonorant.training.intervals import bootstrap

CONTROL = "control"
WARM_UP = 2
"""Rounds before timing starts: memory is laid out, and processors wake up."""
BLOCKS = 10
RESAMPLES = 2000
SEED = 0
Times = dict[str, NDArray[np.float64]]


def take_turns(work: Mapping[str, Callable[[], object]], seconds: float, least: int = 10, most: int = 200) -> Times:
    """Seconds per round (R,) of each piece of work and `CONTROL`.

    Makes as many rounds as fit into `seconds`, between `least` and `most`; each round starts with a different
    piece of work.
    """
    phrases = {**work, CONTROL: _control}
    names = list(phrases)
    took: dict[str, list[float]] = {name: [] for name in names}
    ends, rounds = time.perf_counter() + seconds, 0
    while rounds < WARM_UP + least or (rounds < WARM_UP + most and time.perf_counter() < ends):
        first = rounds % len(names)
        for name in names[first:] + names[:first]:
            begin = time.perf_counter()
            phrases[name]()
            took[name].append(time.perf_counter() - begin)
        rounds += 1
    return {name: np.array(times[WARM_UP:]) for name, times in took.items()}


def figures(took: NDArray[np.float64]) -> dict[str, Any]:
    """Percentiles of seconds (R,) in milliseconds, and medians of blocks of consecutive rounds for comparison with
    another run."""
    p50, p95, p99 = np.percentile(took, [50, 95, 99]) * 1000.0
    blocks = [round(float(np.median(block)) * 1000.0, 4) for block in np.array_split(took, min(BLOCKS, len(took)))]
    return {
        "p50_ms": _short(p50),
        "p95_ms": _short(p95),
        "p99_ms": _short(p99),
        "rounds": len(took),
        "blocks_ms": blocks,
    }


def ratio(baseline: NDArray[np.float64], took: NDArray[np.float64]) -> dict[str, Any]:
    """Speed relative to the baseline: median and 95 % bootstrap interval over the rounds."""
    ratios = baseline / took
    low, high = bootstrap(np.median, ratios, resamples=RESAMPLES, seed=SEED)
    return {"speedup": _short(np.median(ratios)), "speedup_ci95": [_short(low), _short(high)]}


def _control() -> float:
    return float(np.sin(_ANGLES).sum())


_ANGLES = np.linspace(0.0, 1000.0, 100_000)


def _short(value: float) -> float:
    return round(float(value), 3)
