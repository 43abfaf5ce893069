import dataclasses

import numpy as np
import pytest
import scipy.signal
import torch

from sonorant.audio.mel import MelConfig, frames_of, hertz_to_mel, log_mel, mel_filterbank, mel_to_hertz

DEMO = MelConfig(sample_rate=16000, n_fft=1024, hop=256, n_mels=80, f_min=0.0, f_max=8000.0)
SMALL = MelConfig(sample_rate=8000, n_fft=128, hop=32, n_mels=10, f_min=100.0, f_max=3900.0)
CONFIGS = pytest.mark.parametrize("config", [DEMO, SMALL], ids=["demo", "small"])


def speechlike(seconds: float, rate: int, seed: int = 0) -> np.ndarray:
    """Noise with a falling spectrum and a beat, float32 (S,)."""
    noise = np.random.default_rng(seed).standard_normal(int(seconds * rate))
    beat = 0.6 + 0.4 * np.sin(2 * np.pi * 4 * np.arange(len(noise)) / rate)
    return (0.05 * scipy.signal.lfilter([1], [1, -0.95], noise) * beat).astype(np.float32)


def direct_log_mel(samples: np.ndarray, config: MelConfig) -> np.ndarray:
    """Log-mel (M, T) by definition in float64: windowed frames, transform, filters, logarithm."""
    frames = -(-len(samples) // config.hop)
    padded = np.pad(samples.astype(np.float64), (0, frames * config.hop - len(samples)))
    mirrored = np.pad(padded, (config.n_fft - config.hop) // 2, mode="reflect")
    windows = np.lib.stride_tricks.sliding_window_view(mirrored, config.n_fft)[:: config.hop]
    magnitude = np.abs(np.fft.rfft(windows * scipy.signal.get_window("hann", config.n_fft)))
    return np.log(np.maximum(mel_filterbank(config).astype(np.float64) @ magnitude.T, 1e-5))


@CONFIGS
@pytest.mark.parametrize("length", [1, 100, 256, 257, 511, 5000])
def test_it_is_what_the_definition_says_with_and_without_gradients(config: MelConfig, length: int) -> None:
    samples = torch.from_numpy(speechlike(1.0, config.sample_rate)[:length])
    mel, trained = log_mel(samples, config), log_mel(samples.clone().requires_grad_(), config).detach()
    assert mel.dtype == torch.float32 and mel.shape[1] == frames_of(length, config)
    np.testing.assert_allclose(mel.numpy(), direct_log_mel(samples.numpy(), config), atol=2e-3)
    torch.testing.assert_close(mel, trained, atol=2e-5, rtol=0)
    assert log_mel(samples[:0], config).shape == (config.n_mels, 0)


def test_a_tone_peaks_in_the_bin_that_covers_it() -> None:
    edges = mel_to_hertz(np.linspace(*hertz_to_mel(np.array([0.0, 8000.0])), DEMO.n_mels + 2))
    time = torch.arange(8000) / DEMO.sample_rate
    for wanted in range(3, DEMO.n_mels, 7):
        mel = log_mel(0.5 * torch.sin(2 * torch.pi * float(edges[wanted + 1]) * time), DEMO)
        assert int(mel[:, 5:-5].mean(dim=1).argmax()) == wanted


def test_slaneys_scale_has_its_published_points_and_an_inverse() -> None:
    np.testing.assert_allclose(hertz_to_mel(np.array([0.0, 200.0, 1000.0, 6400.0])), [0, 3, 15, 42])
    hertz = np.linspace(0, 12000, 500)
    np.testing.assert_allclose(mel_to_hertz(hertz_to_mel(hertz)), hertz, atol=1e-9)


def test_each_filter_has_unit_area() -> None:
    fine = MelConfig(sample_rate=16000, n_fft=16384, hop=256, n_mels=80, f_min=0.0, f_max=8000.0)
    areas = mel_filterbank(fine).sum(axis=1) * fine.sample_rate / fine.n_fft
    np.testing.assert_allclose(areas, 1, atol=0.02)


def test_leading_dimensions_and_zero_padding_change_nothing() -> None:
    alone = torch.from_numpy(speechlike(1.0, DEMO.sample_rate))[: 50 * DEMO.hop - 77]
    padded = torch.nn.functional.pad(alone.repeat(2, 3, 1), (0, 77))
    torch.testing.assert_close(log_mel(padded, DEMO), log_mel(alone, DEMO).expand(2, 3, -1, -1))


def test_gradients_are_finite_in_silence() -> None:
    silence = torch.zeros(1000, requires_grad=True)
    log_mel(silence, SMALL).sum().backward()
    assert silence.grad is not None and silence.grad.isfinite().all()


def test_autocast_and_half_precision_input_compute_in_float32() -> None:
    samples = torch.from_numpy(speechlike(0.3, DEMO.sample_rate))
    plain = log_mel(samples, DEMO)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(log_mel(samples, DEMO), plain)
    assert log_mel(samples.bfloat16(), DEMO).dtype == torch.float32


def test_a_first_call_in_inference_mode_does_not_spoil_training() -> None:
    fresh = dataclasses.replace(SMALL, f_min=123.0)
    with torch.inference_mode():
        log_mel(torch.ones(500), fresh)
    samples = torch.rand(500, requires_grad=True)
    log_mel(samples, fresh).sum().backward()
    assert samples.grad is not None


@pytest.mark.parametrize(
    ("name", "value"),
    [("hop", 255), ("hop", 2048), ("f_max", 9000.0), ("f_min", 8000.0), ("n_mels", 400)],
)
def test_contradictions_are_refused_by_name(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{name}.* {value:g}"):
        dataclasses.replace(DEMO, **{name: value})
