"""From frame-level hidden states to a mel, two ways behind one interface. Knows nothing of tokens or durations.

Both offer `forward(hidden, mask, time) -> mel` for synthesis and `loss(hidden, mask, mel) -> summed loss` for training; mels are
normalised.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import nn

from sonorant.models.convnext import ConvNeXtStack

if TYPE_CHECKING:
    from sonorant.models.acoustic import AcousticConfig

NOISE_FRAMES = 1024
"""Length of the flow decoder's noise, repeated for longer utterances: a constant, so that the exported graph equals torch."""
SIGMA_MIN = 1e-4
"""Noise left at the data end of the flow's path (Lipman et al. 2023)."""


class RegressionDecoder(nn.Module):
    """One pass; L1. Sharp enough where a voice says the same thing the same way."""

    def __init__(self, config: AcousticConfig, mels: int) -> None:
        super().__init__()
        self.stack = ConvNeXtStack(config.channels, config.expansion, config.decoder_kernel, config.decoder_blocks, config.dropout)
        self.out = nn.Linear(config.channels, mels)

    def forward(self, hidden_BTC: torch.Tensor, mask_BT1: torch.Tensor, time_T: torch.Tensor | None = None) -> torch.Tensor:
        """(B, T, C), mask (B, T, 1) -> (B, T, M); the same at any time."""
        return self.out(self.stack(hidden_BTC, mask_BT1))

    def loss(self, hidden_BTC: torch.Tensor, mask_BT1: torch.Tensor, mel_BTM: torch.Tensor) -> torch.Tensor:
        """Sum over real frames of the mean absolute error over mel bins."""
        return ((self(hidden_BTC, mask_BT1).float() - mel_BTM).abs().mean(2, keepdim=True) * mask_BT1).sum()


class FlowDecoder(nn.Module):
    """Optimal-transport conditional flow matching (Lipman et al. 2023, section 4.1; for speech Mehta et al. 2024, "Matcha-TTS")."""

    noise_TM: torch.Tensor
    frequency: torch.Tensor

    def __init__(self, config: AcousticConfig, mels: int) -> None:
        super().__init__()
        self.steps = config.flow_steps
        self.mels = mels
        self.enter = nn.Linear(mels + config.channels, config.channels)
        self.time = nn.Sequential(nn.Linear(64, config.channels), nn.SiLU(), nn.Linear(config.channels, config.channels))
        self.stack = ConvNeXtStack(config.channels, config.expansion, config.decoder_kernel, config.decoder_blocks, config.dropout)
        self.out = nn.Linear(config.channels, mels)
        generator = torch.Generator().manual_seed(0)
        self.register_buffer("noise_TM", torch.randn(NOISE_FRAMES, mels, generator=generator))
        self.register_buffer("frequency", torch.exp(torch.arange(32) * (-math.log(1000.0) / 31)) * 100.0, persistent=False)

    def velocity(self, x_BTM: torch.Tensor, time_B: torch.Tensor, hidden_BTC: torch.Tensor, mask_BT1: torch.Tensor) -> torch.Tensor:
        """The field that carries noise at time 0 to a mel at time 1: (B, T, M), time (B,) -> (B, T, M)."""
        angle_BF = time_B[:, None] * self.frequency
        time_BC = self.time(torch.cat([angle_BF.sin(), angle_BF.cos()], dim=1))
        x_BTC = self.enter(torch.cat([x_BTM, hidden_BTC], dim=2)) + time_BC[:, None]
        return self.out(self.stack(x_BTC, mask_BT1))

    def forward(self, hidden_BTC: torch.Tensor, mask_BT1: torch.Tensor, time_T: torch.Tensor) -> torch.Tensor:
        """(B, T, C), mask (B, T, 1), frame numbers (T,) int64 -> (B, T, M), by `flow_steps` Euler steps from fixed noise."""
        x_BTM = self.noise_TM[time_T % NOISE_FRAMES][None].expand(hidden_BTC.shape[0], -1, -1)
        for step in range(self.steps):
            time_B = torch.full((hidden_BTC.shape[0],), step / self.steps, device=hidden_BTC.device)
            x_BTM = x_BTM + self.velocity(x_BTM, time_B, hidden_BTC, mask_BT1).float() / self.steps
        return x_BTM

    def loss(self, hidden_BTC: torch.Tensor, mask_BT1: torch.Tensor, mel_BTM: torch.Tensor) -> torch.Tensor:
        """Sum over real frames of the mean squared error of the velocity at a random time."""
        time_B = torch.rand(mel_BTM.shape[0], device=mel_BTM.device)
        noise_BTM = torch.randn_like(mel_BTM)
        weight_B11 = time_B[:, None, None]
        x_BTM = (1 - (1 - SIGMA_MIN) * weight_B11) * noise_BTM + weight_B11 * mel_BTM
        target_BTM = mel_BTM - (1 - SIGMA_MIN) * noise_BTM
        predicted_BTM = self.velocity(x_BTM, time_B, hidden_BTC, mask_BT1).float()
        return (((predicted_BTM - target_BTM) ** 2).mean(2, keepdim=True) * mask_BT1).sum()


DECODERS: dict[str, type[RegressionDecoder] | type[FlowDecoder]] = {"regression": RegressionDecoder, "flow": FlowDecoder}
