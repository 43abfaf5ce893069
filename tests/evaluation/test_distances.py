import numpy as np
import pytest
from scipy.signal import lfilter

from sonorant.evaluation.analysis import log_mel_envelope, mel_cepstra
from sonorant.evaluation.likeness import compare
from sonorant.evaluation.spectral_distances import align, summarize

RATE = 16000


def vowel(pitch: float, seconds: float = 1.0, formants: tuple[float, ...] = (700.0, 1200.0, 2600.0)) -> np.ndarray:
    """Pulse train through resonances, float64 (S,), with soft ends."""
    count = round(seconds * RATE)
    phase = np.cumsum(np.full(count, pitch / RATE))
    buzz = np.diff(np.floor(phase), prepend=0.0) + np.random.default_rng(0).standard_normal(count) * 1e-3
    for formant in formants:
        radius = np.exp(-np.pi * 100.0 / RATE)
        buzz = lfilter([1.0], [1.0, -2 * radius * np.cos(2 * np.pi * formant / RATE), radius**2], buzz)
    return 0.3 * buzz / np.abs(buzz).max()


def figures(samples: np.ndarray, reference: np.ndarray) -> dict[str, float]:
    return summarize([compare(samples, reference, RATE).distance])


def test_a_sound_is_at_no_distance_from_itself() -> None:
    same = figures(vowel(120), vowel(120))
    assert same["mcd_db"] == same["log_mel_db"] == same["f0_rmse_cents"] == same["voicing_error"] == 0
    assert same["duration_ratio"] == 1


def test_loudness_counts_in_the_log_mel_distance_alone_and_noise_in_all() -> None:
    quieter = figures(0.5 * vowel(120), vowel(120))
    assert quieter["mcd_db"] < 1
    assert quieter["log_mel_db"] == pytest.approx(20 * np.log10(2), abs=0.2)
    noise = 0.1 * np.random.default_rng(1).standard_normal(RATE)
    other = figures(vowel(120, formants=(300.0, 2200.0, 3000.0)), vowel(120))["mcd_db"]
    assert other > 3
    noisy = figures(noise, vowel(120))
    assert noisy["mcd_db"] > max(8, other) and noisy["log_mel_db"] > quieter["log_mel_db"]
    assert noisy["voicing_error"] > 0.7, "frames are voiced on one side only"


def test_distortion_has_the_scale_of_its_formula() -> None:
    """A mel ripple of 6 dB peak has an RMS distortion of 6 / sqrt 2 dB."""
    frequencies = np.linspace(0, RATE / 2, 513)
    mel = np.log1p(frequencies / 700) / np.log1p(RATE / 2 / 700)
    ripple_db = 6.0 * np.cos(np.pi * 5 * mel)
    cepstra = mel_cepstra(log_mel_envelope(np.stack([10 ** (ripple_db / 10), np.ones(513)]), RATE))
    distortion = 10 / np.log(10) * np.sqrt(2 * np.square(cepstra[0] - cepstra[1]).sum())
    assert distortion == pytest.approx(6 / np.sqrt(2), rel=0.01)


def test_pitch_is_measured_in_cents() -> None:
    for cents, tolerance in ((1200, 0.05), (100, 0.1)):
        shifted = figures(vowel(110 * 2 ** (cents / 1200)), vowel(110))
        assert shifted["f0_rmse_cents"] == pytest.approx(cents, rel=tolerance)


@pytest.mark.parametrize("shape", [(1, 1), (1, 4), (4, 1), (3, 4), (5, 3)])
def test_alignment_is_the_cheapest_of_all_paths(shape: tuple[int, int]) -> None:
    cost = np.random.default_rng(sum(shape)).random(shape)
    i, j = align(cost)
    assert (i[0], j[0], i[-1], j[-1]) == (0, 0, shape[0] - 1, shape[1] - 1)
    steps = {(int(a), int(b)) for a, b in zip(np.diff(i), np.diff(j), strict=True)}
    assert steps <= {(0, 1), (1, 0), (1, 1)}
    assert cost[i, j].sum() == pytest.approx(cheapest(cost, 0, 0))


def cheapest(cost: np.ndarray, i: int, j: int) -> float:
    """Brute force over monotonic paths to the last corner."""
    steps = [(i + 1, j), (i, j + 1), (i + 1, j + 1)]
    ahead = [cheapest(cost, *step) for step in steps if step[0] < cost.shape[0] and step[1] < cost.shape[1]]
    return float(cost[i, j]) + min(ahead, default=0.0)


def test_silence_has_no_pitch() -> None:
    assert str(figures(np.zeros(RATE), np.zeros(RATE))["f0_rmse_cents"]).startswith("not run: ")
