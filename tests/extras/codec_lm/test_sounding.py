"""Decoding codes in parts equals decoding the whole; in an arithmetic stand-in every part counts."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from sonorant.extras.codec_lm.sounding import Sounding
from sonorant.speech.bundle import ReceptiveField

HOP, STRIDE, FRAMES = 4, 2, 60
SEES = ReceptiveField(decoder=2, vocoder=5)
DESCRIPTION: Any = SimpleNamespace(
    graphs={"decoder": None, "vocoder": None},
    receptive_field=SEES,
    audio=SimpleNamespace(sample_rate=16000, hop=HOP),
    decoding=SimpleNamespace(stride=STRIDE),
)
CODES = np.random.default_rng(0).integers(0, 9, (3, FRAMES, 2))
LENGTHS = np.array([FRAMES, 33, 2])


def around(x: np.ndarray, reach: int) -> np.ndarray:
    """Combine each value with those up to `reach` on either side."""
    padded = np.pad(x, [(0, 0)] * (x.ndim - 1) + [(reach, reach)])
    return sum(np.tanh(padded[..., k : k + x.shape[-1]] * (k + 1) * 0.3) for k in range(2 * reach + 1))


class Arithmetic:
    """Replaces both graphs with arithmetic."""

    def decode(self, codes: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        real = (np.arange(codes.shape[1])[None] < lengths[:, None])[..., None]
        learned = around((codes * real).transpose(0, 2, 1).astype(float), SEES.decoder)
        with_pitch = np.concatenate([learned, 0.1 * learned[:, :1], learned[:, 1:]], axis=1)
        return np.repeat(with_pitch, STRIDE, axis=2).astype(np.float32)

    def vocode(self, frames: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """The source's rows count too, so a wrong phase shows."""
        real = (np.arange(frames.shape[2])[None] < lengths[:, None])[:, None]
        return np.repeat(around(frames * real, SEES.vocoder).sum(1), HOP, axis=1).astype(np.float32)


@pytest.fixture(scope="module")
def sounding() -> Sounding:
    runtime: Any = Arithmetic()
    return Sounding(runtime, DESCRIPTION)


@pytest.fixture(scope="module")
def whole(sounding: Sounding) -> np.ndarray:
    return sounding.whole(CODES, LENGTHS, 1000)


@pytest.mark.parametrize("size", [1, 3, 7, FRAMES - 1, FRAMES])
def test_parts_of_any_size_equal_the_whole(size: int, sounding: Sounding, whole: np.ndarray) -> None:
    assert whole.shape == (3, FRAMES * STRIDE * HOP)
    np.testing.assert_array_equal(sounding.whole(CODES, LENGTHS, size), whole)


def test_a_row_is_as_it_would_be_alone(sounding: Sounding, whole: np.ndarray) -> None:
    for row, length in enumerate(LENGTHS):
        alone = sounding.whole(CODES[row : row + 1, :length], LENGTHS[row : row + 1], 7)
        np.testing.assert_array_equal(alone[0], whole[row, : alone.shape[1]])


@pytest.mark.parametrize("after", [2, 3, 5])
def test_a_stream_waits_for_no_more_than_asked_and_only_its_first_part_differs(
    after: int, sounding: Sounding, whole: np.ndarray
) -> None:
    assert (sounding.least_lookahead, sounding.lookahead) == (2, 5)
    sizes, taken = [5, 9, 12], 0
    blocks = [sizes[0] + after, sizes[1] + sounding.lookahead - after, *[sizes[2]] * 9]

    def coming() -> Iterator[np.ndarray]:
        nonlocal taken
        for block in blocks:
            first, taken = taken, min(FRAMES, taken + block)
            yield CODES[:1, first:taken]

    parts, waited = [], []
    for part in sounding.parts(coming(), None, sizes, after):
        parts.append(part)
        waited.append(taken)
    heard, end = np.concatenate(parts, axis=1)[0], sizes[0] * STRIDE * HOP
    assert waited[:3] == [5 + after, 14 + 5, 26 + 5]
    np.testing.assert_array_equal(heard[end:], whole[0, end:])
    assert np.array_equal(heard, whole[0]) == (after == sounding.lookahead)
