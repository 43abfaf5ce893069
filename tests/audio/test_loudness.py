import numpy as np
import pytest

from sonorant.audio.arrays import Floats
from sonorant.audio.loudness import loudness, true_peak


def sine(rate: int, seconds: float, hertz: float = 997.0, level: float = 1.0, phase: float = 0.0) -> Floats:
    return (level * np.sin(2 * np.pi * hertz * np.arange(round(rate * seconds)) / rate + phase)).astype(np.float32)


@pytest.mark.parametrize("rate", [8000, 22050, 48000])
def test_the_standards_sine_has_the_standards_loudness(rate: int) -> None:
    assert loudness(sine(rate, 4), rate) == pytest.approx(-3.01, abs=0.05)  # BS.1770-4, annex 1
    assert loudness(sine(rate, 4, level=0.1), rate) == pytest.approx(-23.01, abs=0.05)


@pytest.mark.parametrize("seconds", [0.05, 0.39, 0.4, 0.41])
def test_a_clip_shorter_than_a_block_is_one(seconds: float) -> None:
    assert loudness(sine(24000, seconds, level=0.1), 24000) == pytest.approx(-23.0, abs=0.5)


@pytest.mark.parametrize("samples", [np.zeros(0), np.zeros(5), np.zeros(48000), np.full(48000, 1e-6)])
def test_what_is_too_quiet_has_no_loudness(samples: Floats) -> None:
    assert loudness(samples.astype(np.float32), 24000) is None


def test_the_peak_between_samples_is_found() -> None:
    between = sine(48000, 1, hertz=12000, phase=np.pi / 4) * np.hanning(48000).astype(np.float32)
    assert 20 * np.log10(np.abs(between).max()) == pytest.approx(-3.01, abs=0.01)
    assert true_peak(between, 48000) == pytest.approx(0.0, abs=0.05)
    assert true_peak(0.5 * between, 48000) == pytest.approx(-6.02, abs=0.05)
    assert true_peak(np.zeros(100, np.float32), 48000) is None
    assert true_peak(np.ones(1, np.float32), 48000) == pytest.approx(0.0, abs=1.0)
