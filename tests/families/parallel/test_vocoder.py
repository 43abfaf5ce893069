import numpy as np
import pytest
import torch
from torch.nn import functional as F

from sonorant.audio.pitch import ROWS, SOURCE_ROWS, SourceRows
from sonorant.families.parallel.vocoder import VOCODERS, Vocoder, VocoderConfig
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


MELS, HOP = 10, 16


@pytest.fixture(params=list(VOCODERS))
def vocoder(request: pytest.FixtureRequest) -> Vocoder:
    torch.manual_seed(0)
    config = VocoderConfig(kind=request.param, channels=8, expansion=2, blocks=2, kernel=3)
    return VOCODERS[request.param](config, mels=MELS, n_fft=64, hop=HOP, rate=8000).eval()


@pytest.fixture
def frames() -> torch.Tensor:
    """Three items (3, R, 41)."""
    random = np.random.default_rng(0)
    known = np.concatenate([random.normal(size=(3, MELS, 41)), random.uniform(-0.3, 0.3, (3, ROWS, 41))], axis=1)
    return torch.from_numpy(SourceRows(8000, HOP).append(known))


@torch.no_grad()
def test_a_padded_row_is_as_it_would_be_alone(vocoder: Vocoder, frames: torch.Tensor) -> None:
    lengths = torch.tensor([41, 17, 30])
    together = vocoder(frames, lengths)
    for row, length in enumerate(lengths.tolist()):
        alone = vocoder(frames[row : row + 1, :, :length])
        torch.testing.assert_close(together[row : row + 1, : length * HOP], alone, atol=1e-5, rtol=0)


@torch.no_grad()
def test_a_part_with_its_receptive_field_is_that_of_the_whole_and_with_less_it_is_not(
    vocoder: Vocoder, frames: torch.Tensor
) -> None:
    for block in vocoder.stack.blocks:
        block.scale.mul_(20.0)  # so that distant blocks are audible
    whole, reach = vocoder(frames), vocoder.receptive_field

    def part(reach: int) -> float:
        samples = vocoder(frames[:, :, 20 - reach : 21 + reach])[:, reach * HOP : (reach + 1) * HOP]
        return float((samples - whole[:, 20 * HOP : 21 * HOP]).abs().max() / whole.abs().max())

    assert part(reach) < 1e-6 < part(reach - 1)


@torch.no_grad()
def test_pitch_is_heard_of_a_source_alone(vocoder: Vocoder, frames: torch.Tensor) -> None:
    higher = frames.clone()
    higher[:, MELS : MELS + ROWS + SOURCE_ROWS] *= 0.7
    assert torch.equal(vocoder(higher), vocoder(frames)) == (vocoder.config.kind == "vocos")


def test_even_kernel_is_refused() -> None:
    with pytest.raises(ValueError, match="odd"):
        VocoderConfig(channels=8, expansion=2, blocks=2, kernel=4)
