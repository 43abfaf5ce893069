"""One runtime, many threads: what each hears is what it would hear alone."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from sonorant.runtime.bundle import read_bundle
from sonorant.runtime.chunks import speak
from sonorant.runtime.runtimes import LoadOptions, load_runtime
from sonorant.runtime.voice import Voice

THREADS = 8
SENTENCES = ("Good morning.", "The train was late again.", "No.", "We walked along the river, and it rained.")


@pytest.mark.parametrize("name", ["onnxruntime", "torch"])
def test_many_requests_at_once_are_answered_as_alone(name: str, voice_bundle: Path, trained: tuple[Path, Path]) -> None:
    bundle = read_bundle(voice_bundle)
    runtime = load_runtime(name, bundle, LoadOptions(threads=1, trained=trained))

    def say(seed: int) -> np.ndarray:
        rng = np.random.default_rng(seed)
        rows, longest = int(rng.integers(1, 4)), int(rng.integers(1, 40))
        lengths = rng.integers(1, longest + 1, rows)
        tokens = rng.integers(0, 2, (rows, longest, 3)) + np.array([5, 0, 0])
        states, ends = runtime.encode(tokens, lengths, rng.integers(0, 2, rows), np.ones(rows, np.float32))
        return speak(runtime, states, ends, bundle.description.receptive_field, limit=100)

    alone = [say(seed) for seed in range(48)]
    with ThreadPoolExecutor(THREADS) as pool:
        together = list(pool.map(say, range(48)))
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_voice_not_yet_used_is_used_by_many_at_once(voice_bundle: Path) -> None:
    texts = [SENTENCES[number % len(SENTENCES)] for number in range(2 * THREADS)]
    fresh = Voice.load(voice_bundle, threads=1)  # its text frontend is loaded by the first who speaks
    with ThreadPoolExecutor(THREADS) as pool:
        together = list(pool.map(fresh.say, texts))
    voice = Voice.load(voice_bundle, threads=1)
    for text, heard in zip(texts, together, strict=True):
        np.testing.assert_array_equal(heard, voice.say(text))
