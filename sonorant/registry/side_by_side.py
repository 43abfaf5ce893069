"""Time two voices alternately on the same sentences: only ratios measured together are comparable."""

import time
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from sonorant.registry.figures import shipped
from sonorant.speech.bundle import Bundle
from sonorant.speech.voice import Voice

SENTENCES = 40
"""Evenly spread over lengths."""
ROUNDS = 5
"""Timed rounds per sentence, after a warm-up."""
LONGEST, LEAST = 2.0, 2
"""Seconds after which no further round starts, and the minimum number of rounds."""


def latency_ratios(challenger: Bundle, champion: Bundle, texts: Sequence[str]) -> NDArray[np.float64]:
    """Latency of `challenger` over `champion`, from phoneme ids to samples, one ratio per sentence (S,).

    Default variant and runtime, one thread. The fastest of up to `ROUNDS` rounds counts, since load only adds time; the
    order alternates. Raises SonorantError if a voice cannot run here.
    """
    by_length = sorted(dict.fromkeys(texts), key=len)
    places = np.unique(np.linspace(0, len(by_length) - 1, min(SENTENCES, len(by_length))).astype(int))
    first, second = _speaker(challenger), _speaker(champion)
    return np.array([_ratio(first(text), second(text)) for text in (by_length[place] for place in places)])


def _speaker(bundle: Bundle) -> Callable[[str], Callable[[], object]]:
    default = shipped(bundle)
    voice = Voice.load(bundle.folder, default.runtime, 1, variant=default.variant)

    def prepare(text: str) -> Callable[[], object]:
        tokens = voice.symbols.to_tokens(voice.frontend.speak(text).phonemes)
        inputs = (tokens[None], np.array([len(tokens)]), np.zeros(1, np.int64), np.ones(1, np.float32))
        return lambda: voice.synthesize(*inputs)

    return prepare


def _ratio(first: Callable[[], object], second: Callable[[], object]) -> float:
    took: dict[Callable[[], object], list[float]] = {first: [], second: []}
    started = time.perf_counter()
    for turn in range(1 + ROUNDS):
        if turn > LEAST and time.perf_counter() - started > LONGEST:
            break
        for run in (first, second) if turn % 2 else (second, first):
            begin = time.perf_counter()
            run()
            took[run].append(time.perf_counter() - begin)
    return min(took[first][1:]) / min(took[second][1:])
