"""The vocoder: log-mel in, samples out, in one pass. ConvNeXt blocks at frame rate predict magnitude and phase, an
inverse short-time Fourier transform does the upsampling (Siuzdak 2023, "Vocos")."""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from sonorant.layers.convnext import ConvNeXtStack
from sonorant.layers.inverse_stft import InverseSTFT

ENTER_KERNEL = 7
"""Frames that the first convolution sees."""


@dataclass(frozen=True, kw_only=True)
class VocoderConfig:
    """Kind and size of the vocoder."""

    kind: Literal["vocos"] = "vocos"
    """A key of `VOCODERS`."""
    channels: int
    """Width of the network."""
    expansion: int
    """Hidden width of a block's MLP as a multiple of `channels`."""
    blocks: int
    """ConvNeXt blocks."""
    kernel: int
    """Their kernel in frames; odd."""

    def __post_init__(self) -> None:
        if self.kernel % 2 == 0:
            raise ValueError("kernel must be odd")
        if min(self.channels, self.expansion, self.blocks) < 1:
            raise ValueError("channels, expansion and blocks must be at least 1")


class Vocoder(nn.Module):
    """Log-mel -> magnitude and phase -> samples."""

    def __init__(self, config: VocoderConfig, *, mels: int, n_fft: int, hop: int) -> None:
        super().__init__()
        self.config = config
        self.hop = hop
        self.enter = nn.Conv1d(mels, config.channels, ENTER_KERNEL, padding=ENTER_KERNEL // 2)
        self.norm = nn.LayerNorm(config.channels)
        self.stack = ConvNeXtStack(config.channels, config.expansion, config.kernel, config.blocks)
        self.out = nn.Linear(config.channels, n_fft + 2)
        self.inverse = InverseSTFT(n_fft, hop)

    def forward(self, mel_BMT: Tensor, lengths_B: Tensor | None = None) -> Tensor:
        """Log-mel (B, M, T) float32, frames of each row (B,) int64 (None: all) -> samples (B, T * hop) float32 in
        -1..1. A row is as it would be alone, a part like the same part of the whole with `receptive_field` frames
        around it."""
        mask_BT1 = None
        if lengths_B is not None:
            time_T = torch.arange(mel_BMT.shape[2], device=mel_BMT.device)
            mask_BT1 = (time_T[None] < lengths_B[:, None])[..., None].to(mel_BMT.dtype)
            mel_BMT = mel_BMT * mask_BT1.transpose(1, 2)
        x_BTC = self.stack(self.norm(self.enter(mel_BMT).transpose(1, 2)), mask_BT1)
        magnitude_BTF, phase_BTF = self.out(x_BTC).float().chunk(2, dim=2)
        magnitude_BTF = magnitude_BTF.clamp(max=6.0).exp()
        if mask_BT1 is not None:
            magnitude_BTF = magnitude_BTF * mask_BT1
        return self.inverse(magnitude_BTF * phase_BTF.cos(), magnitude_BTF * phase_BTF.sin())

    @property
    def receptive_field(self) -> int:
        """Frames on either side that the samples of a frame depend on."""
        return ENTER_KERNEL // 2 + self.config.blocks * (self.config.kernel // 2) + self.inverse.overlap // 2


VOCODERS: dict[str, type[Vocoder]] = {"vocos": Vocoder}
"""By `VocoderConfig.kind`. Another kind is a class that is made and called as `Vocoder` is."""
