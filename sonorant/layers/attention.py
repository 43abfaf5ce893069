"""Causal self-attention with rotary positions in three kinds: full, a sliding window, or blocks.

Rotary embedding after Su et al. 2021, "RoFormer", section 3.2.2, pairing a head's first half with its second. `allowed`
alone says which key a query sees; everything here equals full attention under that mask. Sliding and block attention
look back less than two windows, so training computes window by window: memory grows linearly with length."""

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sonorant.layers.kv_cache import EMPTY, Cache

BASE = 10_000.0
"""The slowest pair turns once in about 2 pi times as many positions."""
Turns = tuple[Tensor, Tensor]
"""Cosine and sine of the angles (B, 1, T, D) float32, for both halves of a head; the sine is negative in the first."""


def turns(position_BT: Tensor, width: int) -> Turns:
    """Angles by which heads of even width D turn at each position (B, T) int64."""
    pair_P = torch.arange(0, width, 2, device=position_BT.device, dtype=torch.float32)
    angle_B1TP = position_BT[:, None, :, None].float() * BASE ** (-pair_P / width)
    cos, sin = angle_B1TP.cos(), angle_B1TP.sin()
    return torch.cat([cos, cos], dim=-1), torch.cat([-sin, sin], dim=-1)


def rotate(x_BHTD: Tensor, turned: Turns) -> Tensor:
    """Turn queries or keys (B, H, T, D) of any float dtype, which is kept; computed in float32."""
    cos, sin = turned
    first, second = x_BHTD.chunk(2, dim=-1)
    return (x_BHTD.float() * cos + torch.cat([second, first], dim=-1).float() * sin).to(x_BHTD.dtype)


Kind = Literal["full", "sliding", "block"]
"""Positions a query sees: `full`: up to its own; `sliding`: the last `window`; `block`: its own and the last block."""


def allowed(kind: Kind, window: int, query: Tensor, key: Tensor) -> Tensor:
    """Whether a query at one position may see a key at another; int64 positions that broadcast -> bool."""
    seen = key <= query
    if kind == "sliding":
        return seen & (query - key < window)
    if kind == "block":
        return seen & (query - key <= window + query % window)
    return seen


def attend(kind: Kind, window: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Attention of (B, H, T, D) whose slots are their positions -> (B, H, T, D), without building (T, T)."""
    if kind == "full" or query.shape[2] <= window:
        return F.scaled_dot_product_attention(query, key, value, is_causal=True)
    heard: Tensor = _ByWindows.apply(kind, window, query, key, value)
    return heard


class _ByWindows(torch.autograd.Function):
    """One window of queries after the other, each with the keys of its own window and of the previous one. Attention is
    recomputed in the backward pass: autograd would keep every window and add up gradients of full length."""

    @staticmethod
    def forward(ctx: Any, kind: Kind, window: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        ctx.kind, ctx.window = kind, window
        ctx.save_for_backward(query, key, value)
        heard = torch.empty_like(query)
        for own, seen, mask in _windows(kind, window, query):
            heard[:, :, own] = F.scaled_dot_product_attention(
                query[:, :, own], key[:, :, seen], value[:, :, seen], attn_mask=mask
            )
        return heard

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
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


def _windows(kind: Kind, window: int, query_BHTD: Tensor) -> Iterator[tuple[slice, slice, Tensor]]:
    """The slots of each window, the slots it may see, and the mask between the two."""
    length = query_BHTD.shape[2]
    position_T = torch.arange(length, device=query_BHTD.device)
    for first in range(0, length, window):
        end = min(first + window, length)
        own, seen = slice(first, end), slice(max(first - window, 0), end)
        yield own, seen, allowed(kind, window, position_T[own, None], position_T[None, seen])


class Sight(NamedTuple):
    """How the positions of one call of `step` attend: computed once, used by every layer."""

    turned: Turns
    mask_B1QS: Tensor
    """bool: which slots each query sees."""


class SelfAttention(nn.Module):
    """Heads of causal attention with rotary positions; the projections are its only weights."""

    def __init__(self, channels: int, heads: int, kind: Kind = "full", window: int = 0) -> None:
        """`heads` divides `channels` into even widths; `window`, in positions, is ignored by `full`."""
        super().__init__()
        if channels % heads or channels // heads % 2:
            raise ValueError(f"heads must divide channels into even widths, not {channels} by {heads}")
        if kind != "full" and window < 1:
            raise ValueError(f"the window of {kind} attention must be at least 1 position, not {window}")
        self.heads, self.kind, self.window = heads, kind, window
        self.width = channels // heads
        self.project = nn.Linear(channels, 3 * channels, bias=False)
        self.out = nn.Linear(channels, channels, bias=False)

    def forward(self, x_BTC: Tensor, turned: Turns) -> Tensor:
        """Training: a whole sequence (B, T, C) -> (B, T, C). Slot t holds position t; padding comes last and is never
        seen: see `Packing`. `turned`: `turns` of positions 0 to T - 1 at `width`."""
        query, key, value = self.heads_of(x_BTC, turned)
        return self.joined(attend(self.kind, self.window, query, key, value))

    def sight(self, position_BQ: Tensor, cache: Cache) -> Sight:
        """For `step`: take the next slots of `cache` for these positions, (B, Q) int64, `EMPTY` for padding."""
        cache.take(position_BQ)
        seen_BQS = allowed(self.kind, self.window, position_BQ[:, :, None], cache.positions[:, None, :])
        seen_BQS = seen_BQS & (cache.positions[:, None, :] != EMPTY)
        # Padding sees everything: a softmax over nothing would be NaN.
        return Sight(turns(position_BQ, self.width), (seen_BQS | (position_BQ == EMPTY)[:, :, None])[:, None])

    def step(self, x_BQC: Tensor, sight: Sight, cache: Cache, layer: int) -> Tensor:
        """Decoding: attend from new positions (B, Q, C) to the cache, and keep their keys and values -> (B, Q, C)."""
        query, key, value = self.heads_of(x_BQC, sight.turned)
        return self.joined(cache.attend(layer, query, key, value, sight.mask_B1QS))

    def heads_of(self, x_BTC: Tensor, turned: Turns) -> tuple[Tensor, Tensor, Tensor]:
        """Rotated queries, rotated keys and values of (B, T, C), each (B, H, T, D)."""
        projected_BTHD = self.project(x_BTC).unflatten(-1, (3 * self.heads, self.width))
        to_turn_BHTD, value = _swapped(projected_BTHD).split([2 * self.heads, self.heads], dim=1)
        query, key = rotate(to_turn_BHTD, turned).chunk(2, dim=1)
        return query, key, value

    def joined(self, heard_BHTD: Tensor) -> Tensor:
        """Project the heads' output (B, H, T, D) to (B, T, C)."""
        return self.out(_swapped(heard_BHTD).flatten(2))


def _swapped(x: Tensor) -> Tensor:
    """Exchange the second and third dimension."""
    if 1 in (x.shape[1], x.shape[2]):  # only the shape changes; written so, no graph moves data for it
        return x.reshape(-1, x.shape[2], x.shape[1], x.shape[3])
    return x.transpose(1, 2)
