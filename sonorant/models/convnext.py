"""ConvNeXt blocks over time, the one building block of every network here. Knows nothing of text or audio."""

from __future__ import annotations

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from sonorant.models.activation import GELU
from sonorant.models.depthwise import DepthwiseConv
from sonorant.models.dropout import Dropout


class ConvNeXtBlock(nn.Module):
    """Depthwise convolution over time, then an MLP over channels, with a scaled residual.

    After Liu et al. 2022, "A ConvNet for the 2020s", section 2, in one dimension as in Siuzdak 2023, "Vocos", section 3.
    """

    def __init__(self, channels: int, expansion: int, kernel: int, dropout: float = 0.0, scale: float = 0.1) -> None:
        super().__init__()
        self.depthwise = DepthwiseConv(channels, kernel)
        self.norm = nn.LayerNorm(channels)
        self.expand = nn.Linear(channels, channels * expansion)
        self.activation = GELU()
        self.dropout = Dropout(dropout)
        self.contract = nn.Linear(channels * expansion, channels)
        self.scale = nn.Parameter(torch.full((channels,), scale))

    def forward(self, x_BTC: torch.Tensor) -> torch.Tensor:
        """(B, T, C) float -> (B, T, C). Padded positions of the input must be zero; those of the output are not."""
        y = self.norm(self.depthwise(x_BTC))
        y = self.contract(self.dropout(self.activation(self.expand(y))))
        return x_BTC + self.scale * y


class ConvNeXtStack(nn.Module):
    """Blocks in a row, masked after each so that padding never leaks into what is real."""

    def __init__(self, channels: int, expansion: int, kernel: int, blocks: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(ConvNeXtBlock(channels, expansion, kernel, dropout) for _ in range(blocks))
        self.norm = nn.LayerNorm(channels)
        self.recompute = False  # a training may spend time on memory: see training/blocks.py

    def forward(self, x_BTC: torch.Tensor, mask_BT1: torch.Tensor | None = None) -> torch.Tensor:
        """(B, T, C) float, mask (B, T, 1) float of ones and zeros or None for "no padding" -> (B, T, C), layer-normed."""
        for block in self.blocks:
            if mask_BT1 is not None:
                x_BTC = x_BTC * mask_BT1
            recompute = self.recompute and torch.is_grad_enabled()
            x_BTC = checkpoint(block, x_BTC, use_reentrant=False) if recompute else block(x_BTC)
        return self.norm(x_BTC)
