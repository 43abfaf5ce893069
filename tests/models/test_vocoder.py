"""The vocoder's inverse transform against torch's own, and its shapes."""

import pytest
import torch
from torch.nn import functional as F

from sonorant.families.parallel.vocoder import Vocoder, VocoderConfig
from sonorant.layers.inverse_stft import InverseSTFT


@pytest.mark.parametrize(("n_fft", "hop"), [(1024, 256), (512, 128), (64, 16)])
def test_inverse_gives_back_the_signal(n_fft: int, hop: int) -> None:
    torch.manual_seed(0)
    samples = torch.randn(2, hop * 40)
    padded = F.pad(samples, ((n_fft - hop) // 2,) * 2, mode="reflect")
    spectrum = torch.stft(padded, n_fft, hop, window=torch.ones(n_fft), center=False, return_complex=True).mT
    rebuilt = InverseSTFT(n_fft, hop)(spectrum.real, spectrum.imag)
    assert rebuilt.shape == samples.shape
    torch.testing.assert_close(rebuilt[:, n_fft:-n_fft], samples[:, n_fft:-n_fft], atol=2e-5, rtol=0)


def test_output_is_hop_times_frames_and_items_do_not_meet() -> None:
    torch.manual_seed(0)
    vocoder = Vocoder(VocoderConfig(channels=8, expansion=2, blocks=2, kernel=3), mels=10, n_fft=64, hop=16).eval()
    mel = torch.randn(3, 10, 21)
    with torch.no_grad():
        together, alone = vocoder(mel), vocoder(mel[1:2])
    assert together.shape == (3, 21 * 16)
    torch.testing.assert_close(together[1:2], alone)


def test_even_kernel_is_refused() -> None:
    with pytest.raises(ValueError, match="odd"):
        VocoderConfig(channels=8, expansion=2, blocks=2, kernel=4)
