"""Optimal-transport conditional flow matching (Lipman et al. 2023, section 4.1; Mehta et al. 2024, "Matcha-TTS").
Shapes: B items, T frames or tokens, C channels, D sampled rows."""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from sonorant.layers.convnext import ConvNeXtStack

NOISE_PLACES = 1024
"""Length in frames of the repeating noise, which is stored in exported graphs."""
SIGMA_MIN = 1e-4
"""Standard deviation of the noise that remains at the data end of the path."""


class FlowMatching(nn.Module):
    """Integrates a learned velocity field from noise to data."""

    noise_TD: Tensor
    frequency: Tensor

    def __init__(
        self, stack: Callable[[], ConvNeXtStack], channels: int, rows: int, steps: int, temperature: float = 1.0
    ) -> None:
        """`stack`: builds the network with `channels`; `rows`: number of sampled rows; `steps`: number of Euler steps;
        `temperature`: scale of the noise."""
        super().__init__()
        self.steps, self.temperature = steps, temperature
        self.enter = nn.Linear(rows + channels, channels)
        self.time = nn.Sequential(nn.Linear(64, channels), nn.SiLU(), nn.Linear(channels, channels))
        self.stack = stack()
        self.out = nn.Linear(channels, rows)
        generator = torch.Generator().manual_seed(0)
        self.register_buffer("noise_TD", torch.randn(NOISE_PLACES, rows, generator=generator))
        self.register_buffer(
            "frequency", torch.exp(torch.arange(32) * (-math.log(1000.0) / 31)) * 100.0, persistent=False
        )

    def velocity(self, x_BTD: Tensor, time_B: Tensor, hidden_BTC: Tensor, mask_BT1: Tensor) -> Tensor:
        """Return the velocity (B, T, D) at x (B, T, D) and time (B,), where 0 is noise and 1 is data."""
        angle_BF = time_B[:, None] * self.frequency
        time_BC = self.time(torch.cat([angle_BF.sin(), angle_BF.cos()], dim=1))
        x_BTC = self.enter(torch.cat([x_BTD, hidden_BTC], dim=2)) + time_BC[:, None]
        return self.out(self.stack(x_BTC, mask_BT1))

    def forward(self, hidden_BTC: Tensor, mask_BT1: Tensor, place_T: Tensor) -> Tensor:
        """Integrate from fixed noise in `steps` Euler steps: (B, T, C), mask (B, T, 1), positions (T,) int64 -> (B, T,
        D)."""
        noise_TD = self.noise_TD[place_T % NOISE_PLACES]
        if self.temperature != 1.0:
            noise_TD = noise_TD * self.temperature
        x_BTD = noise_TD[None].expand(hidden_BTC.shape[0], -1, -1)
        for step in range(self.steps):
            time_B = torch.full((hidden_BTC.shape[0],), step / self.steps, device=hidden_BTC.device)
            x_BTD = x_BTD + self.velocity(x_BTD, time_B, hidden_BTC, mask_BT1).float() / self.steps
        return x_BTD

    def errors(self, hidden_BTC: Tensor, mask_BT1: Tensor, wanted_BTD: Tensor) -> Tensor:
        """Return the squared errors (B, T, D) of the velocity at a random time, zero at padding."""
        time_B = torch.rand(wanted_BTD.shape[0], device=wanted_BTD.device)
        noise_BTD = torch.randn_like(wanted_BTD)
        weight_B11 = time_B[:, None, None]
        x_BTD = (1 - (1 - SIGMA_MIN) * weight_B11) * noise_BTD + weight_B11 * wanted_BTD
        target_BTD = wanted_BTD - (1 - SIGMA_MIN) * noise_BTD
        predicted_BTD = self.velocity(x_BTD, time_B, hidden_BTC, mask_BT1).float()
        return (predicted_BTD - target_BTD).square() * mask_BT1
