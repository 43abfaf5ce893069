"""Helpers for tests of runtimes: random phonemes, edited bundles, and watched or faulty runtimes."""

import shutil
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from sonorant.speech.voice import Voice
from tests.support.edited import edited as edited_file


def utterance(length: int) -> np.ndarray:
    """Random tokens (length, 3) between a start and an end symbol."""
    rng = np.random.default_rng(length)
    tokens = np.stack([rng.integers(3, 40, length), rng.integers(0, 3, length), rng.integers(0, 2, length)], 1)
    tokens[[0, -1]] = [[1, 0, 0], [2, 0, 0]]
    return tokens


def padded(rows: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Tokens (B, N, 3) of rows (n, 3), zero after their ends, and the rows' lengths (B,)."""
    lengths = np.array([len(row) for row in rows])
    tokens = np.zeros((len(rows), lengths.max(), 3), np.int64)
    for number, row in enumerate(rows):
        tokens[number, : len(row)] = row
    return tokens, lengths


def tokens_of(voice: Voice, text: str) -> np.ndarray:
    """A voice's tokens (N, 3) of a text."""
    return voice.symbols.to_tokens(voice.frontend.speak(text).phonemes)


def joined(chunks: Iterable[np.ndarray]) -> np.ndarray:
    """All samples of a stream."""
    return np.concatenate(list(chunks))


def edited(bundle: Path, out: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    """Copy a bundle to `out`; `change` edits the content of its voice.json in place."""
    shutil.copytree(bundle, out)
    with edited_file(out / "voice.json") as description:
        change(description)
    return out


class Replaced:
    """A runtime or stepper with some methods replaced."""

    def __init__(self, inner: Any, **methods: Any) -> None:
        self._inner = inner
        vars(self).update(methods)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def assert_same_at_once(speak: Callable[[Any], np.ndarray], requests: Sequence[Any]) -> None:
    """Eight concurrent threads get the same audio as alone."""
    alone = [speak(request) for request in requests]
    with ThreadPoolExecutor(8) as pool:
        for got, wanted in zip(pool.map(speak, requests), alone, strict=True):
            np.testing.assert_array_equal(got, wanted)
