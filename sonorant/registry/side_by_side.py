"""Two voices timed in turn on the same sentences, in this process. Knows nothing of registries and limits.

Milliseconds of another day, or of a machine that did something else then, cannot be compared; a ratio of two things measured in
turn can.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from sonorant.registry.figures import shipped
from sonorant.runtime.bundle import Bundle
from sonorant.runtime.voice import Voice

SENTENCES = 40
"""Timed, spread evenly over the lengths there are."""
ROUNDS = 5
"""Timed runs of each sentence and voice, after one that is not."""
RESAMPLES = 2000
SEED = 1
"""Of the bootstrap: the same ratios give the same interval."""


def latency_ratios(challenger: Bundle, champion: Bundle, texts: Sequence[str]) -> NDArray[np.float64]:
    """Time from phoneme ids to samples of `challenger` over that of `champion`, one ratio a sentence (S,); below 1 = faster.

    Each with its own default variant and runtime, on one thread, median of `ROUNDS`; who goes first alternates. Raises SonorantError
    if one of them cannot run here.
    """
    by_length = sorted(dict.fromkeys(texts), key=len)
    chosen = [by_length[i] for i in np.unique(np.linspace(0, len(by_length) - 1, min(SENTENCES, len(by_length))).astype(int))]
    first, second = _speaker(challenger), _speaker(champion)
    return np.array([_ratio(first(text), second(text)) for text in chosen])


def median_interval(ratios: NDArray[np.float64]) -> tuple[float, float, float]:
    """The median of the sentences' ratios and its 95 % percentile interval; sentences are drawn with replacement."""
    drawn = np.random.default_rng(SEED).integers(0, len(ratios), size=(RESAMPLES, len(ratios)))
    low, high = np.percentile(np.median(ratios[drawn], axis=1), [2.5, 97.5])
    return float(np.median(ratios)), float(low), float(high)


def _speaker(bundle: Bundle) -> Callable[[str], Callable[[], object]]:
    default = shipped(bundle)
    voice = Voice.load(bundle.folder, default.runtime, 1, variant=default.variant)

    def prepare(text: str) -> Callable[[], object]:
        tokens = voice.symbols.encode(voice.frontend.speak(text).phonemes)
        inputs = (tokens[None], np.array([len(tokens)]), np.zeros(1, np.int64), np.ones(1, np.float32))
        return lambda: voice.synthesize(*inputs)

    return prepare


def _ratio(first: Callable[[], object], second: Callable[[], object]) -> float:
    took: dict[Callable[[], object], list[float]] = {first: [], second: []}
    for turn in range(1 + ROUNDS):
        for run in (first, second) if turn % 2 else (second, first):
            begin = time.perf_counter()
            run()
            took[run].append(time.perf_counter() - begin)
    return float(np.median(took[first][1:]) / np.median(took[second][1:]))
