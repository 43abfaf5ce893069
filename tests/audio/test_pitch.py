import numpy as np
import pytest

from sonorant.audio.arrays import Floats
from sonorant.audio.pitch import NOISE_FRAMES, REFERENCE, SourceRows, track_pitch, with_source


def voiced(hertz: Floats, rate: int) -> Floats:
    """A sum of harmonics at a changing pitch (S,) in Hz."""
    phase = 2 * np.pi * np.cumsum(hertz) / rate
    return sum(0.3 / harmonic * np.sin(harmonic * phase) for harmonic in range(1, 9))


@pytest.mark.parametrize(("rate", "hop", "low", "high"), [(16000, 256, 90.0, 140.0), (48000, 512, 180.0, 320.0)])
def test_pitch_that_glides_is_followed(rate: int, hop: int, low: float, high: float) -> None:
    hertz = np.linspace(low, high, 2 * rate)
    rows = track_pitch(voiced(hertz, rate), rate, hop, 2 * rate // hop)
    inner = slice(10, -10)
    cents = 1200 * (rows[:, 0] - np.log2(hertz[::hop][: len(rows)] / REFERENCE))
    assert np.abs(cents[inner]).max() < 5
    assert rows[inner, 1].mean() > 0.95


def test_pitch_is_a_line_where_nothing_is_voiced_and_flat_before_and_after() -> None:
    rate, hop = 16000, 256
    first, second = voiced(np.full(rate, 120.0), rate), voiced(np.full(rate, 240.0), rate)
    silence = np.zeros(rate // 2)
    assert not track_pitch(silence, rate, hop, 32).any()
    rows = track_pitch(np.concatenate([silence, first, silence, second, silence]), rate, hop, 3 * rate // hop + 16)
    unvoiced = rows[:, 1] == 0
    octaves = np.log2(np.array([120.0, 240.0]) / REFERENCE)
    assert rows[[0, -1], 0] == pytest.approx(octaves, abs=0.05)
    between = rows[(rows[:, 0] > octaves[0] + 0.1) & (rows[:, 0] < octaves[1] - 0.1) & unvoiced, 0]
    assert len(between) > 10 and (np.diff(between) > 0).all() and np.ptp(np.diff(between)) < 1e-3


@pytest.fixture
def frames() -> Floats:
    """Two items of 300 frames with 5 rows, of which the last two are pitch."""
    random = np.random.default_rng(0)
    return random.uniform(-0.5, 0.5, (2, 5, 300)).astype(np.float32)


def test_phase_is_what_has_passed_of_the_pitch(frames: Floats) -> None:
    rate, hop = 16000, 200
    rows = SourceRows(rate, hop).append(frames)
    np.testing.assert_array_equal(rows[:, :5], frames)
    hertz = REFERENCE * 2.0 ** frames[:, 3].astype(np.float64)
    line = [np.interp(np.arange(299 * hop) / hop, np.arange(300), row) for row in hertz]
    passed = np.stack([np.cumsum(np.append(0.0, row))[::hop] / rate for row in line])
    error = rows[:, 5] - passed
    assert np.abs(error - np.round(error)).max() < 0.01
    assert rows[0, 6].tolist() == [number % NOISE_FRAMES for number in range(300)]


def test_parts_have_the_rows_of_the_whole(frames: Floats) -> None:
    whole = SourceRows(16000, 256).append(frames)
    parts = np.split(frames, [1, 8, 150], axis=2)
    np.testing.assert_array_equal(np.concatenate(list(with_source(parts, 16000, 256, 7)), axis=2), whole)
    assert next(with_source([frames], 16000, 256, 5)) is frames  # a vocoder without pitch
