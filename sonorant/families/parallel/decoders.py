"""The acoustic model's decoders: hidden states of frames in, normalised frames of D rows out.

Each has `forward(hidden, mask, time) -> frames` and `errors(hidden, mask, frames)`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from sonorant.layers.convnext import ConvNeXtStack

if TYPE_CHECKING:
    from sonorant.families.parallel.acoustic import AcousticConfig

NOISE_FRAMES = 1024
"""Length of the flow decoder's noise, which repeats: a constant, so that the exported graph equals torch."""
SIGMA_MIN = 1e-4
"""Noise left at the data end of the flow's path (Lipman et al. 2023)."""


class RegressionDecoder(nn.Module):
    """One pass; L1. Sharp enough where a voice says the same thing the same way."""

    def __init__(self, config: AcousticConfig, rows: int) -> None:
        super().__init__()
        self.stack = _stack(config)
        self.out = nn.Linear(config.channels, rows)

    def forward(self, hidden_BTC: Tensor, mask_BT1: Tensor, time_T: Tensor | None = None) -> Tensor:
        """(B, T, C), mask (B, T, 1) -> (B, T, D); the same at any time."""
        return self.out(self.stack(hidden_BTC, mask_BT1))

    def errors(self, hidden_BTC: Tensor, mask_BT1: Tensor, frames_BTD: Tensor) -> Tensor:
        """Absolute errors (B, T, D), zero where no frame is real."""
        return (self(hidden_BTC, mask_BT1).float() - frames_BTD).abs() * mask_BT1


class FlowDecoder(nn.Module):
    """Optimal-transport conditional flow matching (Lipman et al. 2023, 4.1; Mehta et al. 2024, "Matcha-TTS")."""

    noise_TD: Tensor
    frequency: Tensor

    def __init__(self, config: AcousticConfig, rows: int) -> None:
        super().__init__()
        self.steps = config.flow_steps
        self.enter = nn.Linear(rows + config.channels, config.channels)
        self.time = nn.Sequential(
            nn.Linear(64, config.channels), nn.SiLU(), nn.Linear(config.channels, config.channels)
        )
        self.stack = _stack(config)
        self.out = nn.Linear(config.channels, rows)
        generator = torch.Generator().manual_seed(0)
        self.register_buffer("noise_TD", torch.randn(NOISE_FRAMES, rows, generator=generator))
        self.register_buffer(
            "frequency", torch.exp(torch.arange(32) * (-math.log(1000.0) / 31)) * 100.0, persistent=False
        )

    def velocity(self, x_BTD: Tensor, time_B: Tensor, hidden_BTC: Tensor, mask_BT1: Tensor) -> Tensor:
        """The field that carries noise at time 0 to frames at time 1: (B, T, D), time (B,) -> (B, T, D)."""
        angle_BF = time_B[:, None] * self.frequency
        time_BC = self.time(torch.cat([angle_BF.sin(), angle_BF.cos()], dim=1))
        x_BTC = self.enter(torch.cat([x_BTD, hidden_BTC], dim=2)) + time_BC[:, None]
        return self.out(self.stack(x_BTC, mask_BT1))

    def forward(self, hidden_BTC: Tensor, mask_BT1: Tensor, time_T: Tensor) -> Tensor:
        """(B, T, C), mask (B, T, 1), frame numbers (T,) int64 -> (B, T, D): `flow_steps` Euler steps from fixed
        noise."""
        x_BTD = self.noise_TD[time_T % NOISE_FRAMES][None].expand(hidden_BTC.shape[0], -1, -1)
        for step in range(self.steps):
            time_B = torch.full((hidden_BTC.shape[0],), step / self.steps, device=hidden_BTC.device)
            x_BTD = x_BTD + self.velocity(x_BTD, time_B, hidden_BTC, mask_BT1).float() / self.steps
        return x_BTD

    def errors(self, hidden_BTC: Tensor, mask_BT1: Tensor, frames_BTD: Tensor) -> Tensor:
        """Squared errors (B, T, D) of the velocity at a random time, zero where no frame is real."""
        time_B = torch.rand(frames_BTD.shape[0], device=frames_BTD.device)
        noise_BTD = torch.randn_like(frames_BTD)
        weight_B11 = time_B[:, None, None]
        x_BTD = (1 - (1 - SIGMA_MIN) * weight_B11) * noise_BTD + weight_B11 * frames_BTD
        target_BTD = frames_BTD - (1 - SIGMA_MIN) * noise_BTD
        predicted_BTD = self.velocity(x_BTD, time_B, hidden_BTC, mask_BT1).float()
        return (predicted_BTD - target_BTD).square() * mask_BT1


def _stack(config: AcousticConfig) -> ConvNeXtStack:
    return ConvNeXtStack(
        config.channels, config.expansion, config.decoder_kernel, config.decoder_blocks, config.dropout
    )


DECODERS: dict[str, type[RegressionDecoder] | type[FlowDecoder]] = {
    "regression": RegressionDecoder,
    "flow": FlowDecoder,
}
