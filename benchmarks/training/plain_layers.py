"""Torch's own layers and losses in place of this project's faster ones, as a baseline."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from sonorant.audio.mel import MelConfig, log_mel
from sonorant.layers.convnext import GELU, DepthwiseConv, Dropout
from sonorant.training import waveform
from sonorant.training.spectra import RESOLUTIONS


class PlainDepthwise(nn.Conv1d):
    """torch's convolution in place of `DepthwiseConv`."""

    def forward(self, input: Tensor) -> Tensor:
        """(B, T, C) -> (B, T, C)."""
        return super().forward(input.transpose(1, 2)).transpose(1, 2)


def plain_layers(module: nn.Module) -> None:
    for name, child in module.named_children():
        if isinstance(child, DepthwiseConv):
            kernel = child.kernel_size[0]
            channels = (child.in_channels, child.out_channels)
            setattr(module, name, PlainDepthwise(*channels, kernel, padding=kernel // 2, groups=child.groups))
        elif isinstance(child, Dropout):
            setattr(module, name, nn.Dropout(child.p))
        elif isinstance(child, GELU):
            setattr(module, name, nn.GELU(approximate="tanh"))
        else:
            plain_layers(child)


def plain_losses() -> None:
    """Make waveform models in this process use the definitions of their losses."""
    waveform.spectral_distance = spectral_distance
    waveform.mel_distance = mel_distance


def spectral_distance(fake_BS: Tensor, real_BS: Tensor, resolutions: Sequence[int] = RESOLUTIONS) -> Tensor:
    """`sonorant.training.spectra.spectral_distance` by its definition, for autograd."""
    total = torch.zeros((), device=fake_BS.device)
    for n_fft in resolutions:
        window = torch.hann_window(n_fft, device=fake_BS.device)
        fake_BFT, real_BFT = (
            (torch.stft(x, n_fft, n_fft // 4, window=window, return_complex=True).abs().square() + 1e-9).sqrt()
            for x in (fake_BS, real_BS)
        )
        norms_B = (fake_BFT - real_BFT).flatten(1).norm(dim=1) / real_BFT.flatten(1).norm(dim=1)
        total = total + norms_B.sum() + (fake_BFT.log() - real_BFT.log()).abs().flatten(1).mean(1).sum()
    return total / len(resolutions)


def mel_distance(fake_BS: Tensor, real_BS: Tensor, audio: MelConfig) -> Tensor:
    """`sonorant.training.spectra.mel_distance` by its definition, for autograd."""
    return (log_mel(fake_BS, audio) - log_mel(real_BS, audio)).abs().flatten(1).mean(1).sum()
