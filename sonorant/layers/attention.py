"""Rotary position embedding: queries and keys turned by their position. Knows nothing of attention, models or caches.

Su et al. 2021, "RoFormer: Enhanced Transformer with Rotary Position Embedding", section 3.2.2; a head's first half is
paired with its second, as most language models have it.

Causal self-attention in three kinds: everything before, a sliding window, or blocks. Knows nothing of the model around
it.

Which key a query sees is said once, by `allowed`; everything here equals full attention under that mask. Sliding and
block-local attention look back less than two windows, so training cuts the sequence into windows and shows each its own
and the one before it: memory grows with the length, not with its square."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import torch
from torch import nn
from torch.nn import functional as F

from sonorant.layers.cache import EMPTY, Cache

BASE = 10_000.0
"""The slowest pair turns once in about 2 pi times as many positions."""
Turns = tuple[torch.Tensor, torch.Tensor]
"""Cosine of each position's angles, once for each half of a head, and their sine, negative for the first half; (B, 1,
T, D) float32."""


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


Kind = Literal["full", "sliding", "block"]
"""`full`: all positions up to one's own; `sliding`: the last `window` of them; `block`: those in one's own block of
`window` positions and in the block before it."""


def allowed(kind: Kind, window: int, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
    """Whether a query at one position may see a key at another; int64 positions that broadcast, bool of their joint
    shape."""
    seen = key <= query
    if kind == "sliding":
        return seen & (query - key < window)
    if kind == "block":
        return seen & (query - key <= window + query % window)
    return seen


def attend(kind: Kind, window: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """Attention of (B, H, T, D) whose slots are their positions -> (B, H, T, D), without ever building (T, T)."""
    if kind == "full" or query.shape[2] <= window:
        return F.scaled_dot_product_attention(query, key, value, is_causal=True)
    heard: torch.Tensor = _ByWindows.apply(kind, window, query, key, value)
    return heard


class _ByWindows(torch.autograd.Function):
    """One window of queries after the other, each with the keys of its own window and of the one before.

    Only queries, keys and values are kept for the gradients; what a window heard is computed again: autograd would keep
    every window, and add up gradients as long as the sequence for each.
    """

    @staticmethod
    def forward(
        ctx: Any, kind: Kind, window: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor
    ) -> torch.Tensor:
        ctx.kind, ctx.window = kind, window
        ctx.save_for_backward(query, key, value)
        heard = torch.empty_like(query)
        for own, seen, mask in _windows(kind, window, query):
            heard[:, :, own] = F.scaled_dot_product_attention(
                query[:, :, own], key[:, :, seen], value[:, :, seen], attn_mask=mask
            )
        return heard

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        query, key, value = ctx.saved_tensors
        summed = [torch.zeros_like(side) for side in (query, key, value)]
        for own, seen, mask in _windows(ctx.kind, ctx.window, query):
            places = (own, seen, seen)
            sides = [
                side[:, :, place].detach().requires_grad_()
                for side, place in zip((query, key, value), places, strict=True)
            ]
            with torch.enable_grad():
                heard = F.scaled_dot_product_attention(sides[0], sides[1], sides[2], attn_mask=mask)
            for total, place, part in zip(
                summed, places, torch.autograd.grad(heard, sides, gradients[0][:, :, own]), strict=True
            ):
                total[:, :, place] += part
        return None, None, *summed


def _windows(kind: Kind, window: int, query_BHTD: torch.Tensor) -> Iterator[tuple[slice, slice, torch.Tensor]]:
    """The slots of each window, those that it may see, and which of its slots sees which of those."""
    length = query_BHTD.shape[2]
    position_T = torch.arange(length, device=query_BHTD.device)
    for first in range(0, length, window):
        own, seen = (
            slice(first, min(first + window, length)),
            slice(max(first - window, 0), min(first + window, length)),
        )
        yield own, seen, allowed(kind, window, position_T[own, None], position_T[None, seen])


class Sight(NamedTuple):
    """What the positions of one call of `step` mean to attention: computed once, used by every layer."""

    turned: Turns
    mask_B1QS: torch.Tensor
    """Which slots each query sees, bool."""


class SelfAttention(nn.Module):
    """Heads of causal attention with rotary positions; no weights but the projections."""

    def __init__(self, channels: int, heads: int, kind: Kind = "full", window: int = 0) -> None:
        """`heads` divides `channels` into even widths; `window`, in positions, means nothing to `full`."""
        super().__init__()
        if channels % heads or channels // heads % 2:
            raise ValueError(f"heads must divide channels into even widths, not {channels} by {heads}")
        if kind != "full" and window < 1:
            raise ValueError(f"the window of {kind} attention must be at least 1 position, not {window}")
        self.heads, self.kind, self.window = heads, kind, window
        self.width = channels // heads
        self.project = nn.Linear(channels, 3 * channels, bias=False)
        self.out = nn.Linear(channels, channels, bias=False)

    def forward(self, x_BTC: torch.Tensor, turned: Turns) -> torch.Tensor:
        """A whole sequence at once, for training: (B, T, C) to (B, T, C).

        Slot t holds position t, and padding stands behind what is real, which never sees it: see `Packing`. `turned` is
        `turns` of positions 0 to T - 1 at `width`, the same for every layer.
        """
        query, key, value = self.heads_of(x_BTC, turned)
        return self.joined(attend(self.kind, self.window, query, key, value))

    def sight(self, position_BQ: torch.Tensor, cache: Cache) -> Sight:
        """For `step`: takes the next slots of `cache` for these positions, (B, Q) int64, `EMPTY` where they are
        padding."""
        cache.take(position_BQ)
        seen_BQS = allowed(self.kind, self.window, position_BQ[:, :, None], cache.positions[:, None, :])
        seen_BQS = seen_BQS & (cache.positions[:, None, :] != EMPTY)
        # Padding sees all there is: a softmax over nothing would be no number.
        return Sight(turns(position_BQ, self.width), (seen_BQS | (position_BQ == EMPTY)[:, :, None])[:, None])

    def step(self, x_BQC: torch.Tensor, sight: Sight, cache: Cache, layer: int) -> torch.Tensor:
        """Some positions after those in the cache, which takes their keys and values as those of `layer`: (B, Q, C) to
        (B, Q, C)."""
        query, key, value = self.heads_of(x_BQC, sight.turned)
        return self.joined(cache.attend(layer, query, key, value, sight.mask_B1QS))

    def heads_of(self, x_BTC: torch.Tensor, turned: Turns) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Queries and keys, turned, and values of (B, T, C), each (B, H, T, D)."""
        projected_BTHD = self.project(x_BTC).unflatten(-1, (3 * self.heads, self.width))
        to_turn_BHTD, value = _swapped(projected_BTHD).split([2 * self.heads, self.heads], dim=1)
        query, key = rotate(to_turn_BHTD, turned).chunk(2, dim=1)
        return query, key, value

    def joined(self, heard_BHTD: torch.Tensor) -> torch.Tensor:
        """What the heads (B, H, T, D) heard, as (B, T, C)."""
        return self.out(_swapped(heard_BHTD).flatten(2))


def _swapped(x: torch.Tensor) -> torch.Tensor:
    """The second and third dimension exchanged."""
    if 1 in (x.shape[1], x.shape[2]):  # a matter of shape alone; said so, no graph moves data for it
        return x.reshape(-1, x.shape[2], x.shape[1], x.shape[3])
    return x.transpose(1, 2)
