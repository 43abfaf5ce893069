"""Rotary position embedding: queries and keys turned by their position. Knows nothing of attention, models or caches.

Su et al. 2021, "RoFormer: Enhanced Transformer with Rotary Position Embedding", section 3.2.2; a head's first half is paired with its
second, as most language models have it.
"""

from __future__ import annotations

import torch

BASE = 10_000.0
"""The slowest pair turns once in about 2 pi times as many positions."""

Turns = tuple[torch.Tensor, torch.Tensor]
"""Cosine of each position's angles, once for each half of a head, and their sine, negative for the first half; (B, 1, T, D) float32."""


def turns(position_BT: torch.Tensor, width: int) -> Turns:
    """How far heads of even `width` D turn at each position (B, T) int64."""
    pair_P = torch.arange(0, width, 2, device=position_BT.device, dtype=torch.float32)
    angle_B1TP = position_BT[:, None, :, None].float() * BASE ** (-pair_P / width)
    cos, sin = angle_B1TP.cos(), angle_B1TP.sin()
    return torch.cat([cos, cos], dim=-1), torch.cat([-sin, sin], dim=-1)


def rotate(x_BHTD: torch.Tensor, turned: Turns) -> torch.Tensor:
    """Turn queries or keys (B, H, T, D), of any float dtype, which stays; computed in float32."""
    cos, sin = turned
    first, second = x_BHTD.chunk(2, dim=-1)
    return (x_BHTD.float() * cos + torch.cat([second, first], dim=-1).float() * sin).to(x_BHTD.dtype)
