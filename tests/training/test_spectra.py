from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from sonorant.audio.mel import MelConfig, log_mel
from sonorant.training.spectra import RESOLUTIONS, mel_distance, spectral_distance

Distance = Callable[[Tensor, Tensor], Tensor]
MELS = {
    "the demo's": MelConfig(sample_rate=16000, n_fft=1024, hop=256, n_mels=80, f_min=0.0, f_max=8000.0),
    "a hop that does not divide the window": MelConfig(
        sample_rate=22050, n_fft=1000, hop=300, n_mels=40, f_min=50.0, f_max=8000.0
    ),
    "an odd window without overlap": MelConfig(
        sample_rate=8000, n_fft=255, hop=255, n_mels=20, f_min=0.0, f_max=4000.0
    ),
}


def spectra_by_definition(fake_BS: Tensor, real_BS: Tensor) -> Tensor:
    total = torch.zeros(())
    for n_fft in RESOLUTIONS:
        window = torch.hann_window(n_fft)
        fake_BFT, real_BFT = (
            (torch.stft(x, n_fft, n_fft // 4, window=window, return_complex=True).abs().square() + 1e-9).sqrt()
            for x in (fake_BS, real_BS)
        )
        norms_B = (fake_BFT - real_BFT).flatten(1).norm(dim=1) / real_BFT.flatten(1).norm(dim=1)
        total = total + norms_B.sum() + (fake_BFT.log() - real_BFT.log()).abs().flatten(1).mean(1).sum()
    return total / len(RESOLUTIONS)


def mel_by_definition(audio: MelConfig) -> Distance:
    return lambda fake, real: (log_mel(fake, audio) - log_mel(real, audio)).abs().flatten(1).mean(1).sum()


def signals(samples: int) -> tuple[Tensor, Tensor]:
    """Three items of noise, one nearly silent, and the same with an error."""
    torch.manual_seed(1)
    real = torch.randn(3, samples) * torch.tensor([[0.1], [0.3], [1e-4]])
    return (real + 0.03 * torch.randn_like(real)).requires_grad_(), real


@pytest.mark.parametrize("samples", [12 * 1020, 2500])
@pytest.mark.parametrize("name", ["spectra", *MELS])
def test_distance_and_gradient_are_those_of_the_definition(name: str, samples: int) -> None:
    fake, real = signals(samples)
    if name == "spectra":
        distance, reference = spectral_distance, spectra_by_definition
    else:
        audio = MELS[name]
        fake, real = (x.detach()[:, : samples // audio.hop * audio.hop] for x in (fake, real))
        fake.requires_grad_()
        distance, reference = (lambda a, b: mel_distance(a, b, audio)), mel_by_definition(audio)
    found, expected = distance(fake, real), reference(fake, real)
    torch.testing.assert_close(found, expected)
    [gradient], [wanted] = (torch.autograd.grad(3 * value, fake) for value in (found, expected))
    torch.testing.assert_close(gradient, wanted, rtol=1e-3, atol=1e-4 * float(wanted.abs().max()))


@pytest.mark.parametrize("distance", [spectral_distance, lambda a, b: mel_distance(a, b, MELS["the demo's"])])
def test_silence_and_equal_signals_have_finite_gradients(distance: Distance) -> None:
    _, real = signals(4096)
    for heard in (torch.zeros(3, 4096), real.clone()):
        heard.requires_grad_()
        value = distance(heard, real)
        value.backward()
        assert heard.grad is not None and torch.isfinite(heard.grad).all() and torch.isfinite(value)
    assert float(distance(real, real)) == pytest.approx(0.0, abs=1e-3)


def test_nothing_is_kept_where_no_gradient_is_wanted() -> None:
    fake, real = signals(4096)
    with torch.no_grad():
        assert not spectral_distance(fake, real).requires_grad
