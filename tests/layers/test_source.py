import numpy as np
import pytest
import torch

from sonorant.audio.pitch import NOISE_FRAMES, SourceRows
from sonorant.layers.source import NoiseSpectra, Spectra, pulses

RATE, HOP = 16000, 200


def pulses_of(octaves: torch.Tensor) -> torch.Tensor:
    """Pulses (T * HOP,) at a pitch (T,) in octaves."""
    rows = SourceRows(RATE, HOP).append(np.stack([octaves.numpy(), np.ones(len(octaves))])[None])
    pitch_1T = octaves[None]
    next_1T = torch.cat([pitch_1T[:, 1:], pitch_1T[:, -1:]], dim=1)
    return pulses(pitch_1T, next_1T, torch.from_numpy(rows[:, -2]), HOP, RATE)[0]


def test_pulses_that_glide_equal_a_sum_of_cosines() -> None:
    octaves = torch.linspace(-0.5, 0.5, 100)
    hertz = np.interp(np.arange(100 * HOP) / HOP, np.arange(100), 200 * 2.0 ** octaves.numpy().astype(np.float64))
    phase = 2 * np.pi * (np.cumsum(hertz) - (hertz + hertz[0]) / 2) / RATE
    most = RATE / 2 / hertz - 0.5
    weight = [np.clip(most - harmonic + 1, 0, 1) for harmonic in range(1, 60)]
    wanted = sum(2 * w * np.cos((k + 1) * phase) for k, w in enumerate(weight)) / np.sqrt(2 * most)
    got = pulses_of(octaves).numpy()
    inner = slice(0, 99 * HOP)  # pitch is constant over the last frame
    assert np.square(got[inner] - wanted[inner]).mean() < 1e-3  # of power 1


@pytest.mark.parametrize(("n_fft", "hop"), [(1024, 256), (1200, 300), (64, 16)])
def test_spectra_equal_torchs(n_fft: int, hop: int) -> None:
    torch.manual_seed(0)
    signal, margin = torch.randn(2, 13 * hop), (n_fft - hop) // 2
    frames = torch.nn.functional.pad(signal, (margin, margin)).unfold(1, n_fft, hop) * torch.hann_window(n_fft)
    wanted = torch.fft.rfft(frames)
    real, imaginary = Spectra(n_fft, hop)(signal)
    torch.testing.assert_close(real, wanted.real, atol=1e-4, rtol=0)
    torch.testing.assert_close(imaginary, wanted.imag, atol=1e-4, rtol=0)


def test_noise_is_white_of_power_1_and_belongs_to_a_frame() -> None:
    torch.manual_seed(0)
    noise, numbers = NoiseSpectra(256, NOISE_FRAMES), torch.arange(float(NOISE_FRAMES))[None]
    spectra = torch.complex(*noise(numbers))
    wanted = torch.fft.rfft(torch.randn(4000, 256) * torch.hann_window(256))
    inner = slice(1, -1)
    ratio = spectra[..., inner].abs().square().mean() / wanted[..., inner].abs().square().mean()
    assert float(ratio) == pytest.approx(1.0, abs=0.04)
    later = torch.complex(*noise(numbers[:, 40:60]))
    assert torch.equal(later, spectra[:, 40:60])
