"""Dropout whose random numbers are cheap on CPUs. Knows nothing of the layers around it."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

_LEVELS = 2**16


class Dropout(nn.Dropout):
    """`nn.Dropout` with its probability rounded to a 65536th on CPUs.

    torch draws a 64-bit number for each element there, one after the other, which took a seventh of a training step; here one such
    number decides about four elements.
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """Any shape -> the same shape; zeros with probability `p` in training, the rest scaled by 1 / (1 - p)."""
        dropped = round(self.p * _LEVELS)
        if not self.training or input.device.type != "cpu" or not 0 < dropped < _LEVELS:
            return F.dropout(input, self.p, self.training)
        words = torch.empty(-(-input.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
        levels = words.view(torch.int16)[: input.numel()].view(input.shape)
        kept = torch.ge(levels, dropped - _LEVELS // 2, out=torch.empty(input.shape, dtype=input.dtype))
        return input * kept.mul_(_LEVELS / (_LEVELS - dropped))
