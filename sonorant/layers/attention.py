"""Causal self-attention with rotary positions, of three kinds: full, sliding window, or blocks.

Rotary embedding: Su et al. 2021, "RoFormer", section 3.2.2, pairing a head's first half with its second. Each kind
equals full attention with the mask of `allowed`.
"""

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sonorant.layers.kv_cache import EMPTY, Cache

BASE = 10_000.0
Turns = tuple[Tensor, Tensor]
"""Cosine and sine of the rotary angles, (B, 1, T, D) float32, for both halves of a head; the sine is negated in the
first half."""


def turns(position_BT: Tensor, width: int) -> Turns:
    """Return the rotation of heads of even width D at positions (B, T) int64."""
    pair_P = torch.arange(0, width, 2, device=position_BT.device, dtype=torch.float32)
    angle_B1TP = position_BT[:, None, :, None].float() * BASE ** (-pair_P / width)
    cos, sin = angle_B1TP.cos(), angle_B1TP.sin()
    return torch.cat([cos, cos], dim=-1), torch.cat([-sin, sin], dim=-1)


def rotate(x_BHTD: Tensor, turned: Turns) -> Tensor:
    """Rotate queries or keys (B, H, T, D) in float32; the output has the input's dtype."""
    cos, sin = turned
    first, second = x_BHTD.chunk(2, dim=-1)
    return (x_BHTD.float() * cos + torch.cat([second, first], dim=-1).float() * sin).to(x_BHTD.dtype)


Kind = Literal["full", "sliding", "block"]
"""Visible positions: `full`: all earlier ones; `sliding`: the last `window`; `block`: the query's block and the
previous one."""


def allowed(kind: Kind, window: int, query: Tensor, key: Tensor) -> Tensor:
    """Return the attention mask, bool, for int64 positions `query` and `key`, which are broadcast."""
    seen = key <= query
    if kind == "sliding":
        return seen & (query - key < window)
    if kind == "block":
        return seen & (query - key <= window + query % window)
    return seen


def attend(kind: Kind, window: int, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Compute attention (B, H, T, D) without a (T, T) matrix. Each slot's index must equal its position."""
    if kind == "full" or query.shape[2] <= window:
        return F.scaled_dot_product_attention(query, key, value, is_causal=True)
    heard: Tensor = _ByWindows.apply(kind, window, query, key, value)
    return heard


class _ByWindows(torch.autograd.Function):
    """Compute attention window by window, each to itself and the previous one. The backward pass recomputes attention,
    because autograd would keep every window and add full-length gradients."""

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
    length = query_BHTD.shape[2]
    position_T = torch.arange(length, device=query_BHTD.device)
    for first in range(0, length, window):
        end = min(first + window, length)
        own, seen = slice(first, end), slice(max(first - window, 0), end)
        yield own, seen, allowed(kind, window, position_T[own, None], position_T[None, seen])


class Sight(NamedTuple):
    turned: Turns
    mask_B1QS: Tensor
    """Mask, bool (B, 1, Q, S), of the cached slots visible to each query."""


class SelfAttention(nn.Module):
    def __init__(self, channels: int, heads: int, kind: Kind = "full", window: int = 0) -> None:
        """`heads` must divide `channels` into even widths. `window`: number of positions; unused by `full`."""
        super().__init__()
        if channels % heads or channels // heads % 2:
            raise ValueError(f"heads must divide channels into even widths, but {channels} channels have {heads} heads")
        if kind != "full" and window < 1:
            raise ValueError(f"the window of {kind} attention must be at least 1 position, not {window}")
        self.heads, self.kind, self.window = heads, kind, window
        self.width = channels // heads
        self.project = nn.Linear(channels, 3 * channels, bias=False)
        self.out = nn.Linear(channels, channels, bias=False)

    def forward(self, x_BTC: Tensor, turned: Turns) -> Tensor:
        """Compute attention in training: (B, T, C) -> (B, T, C), slot = position, padding last (`Packing`). `turned`:
        rotation of positions 0 to T - 1."""
        query, key, value = self.heads_of(x_BTC, turned)
        return self.joined(attend(self.kind, self.window, query, key, value))

    def sight(self, position_BQ: Tensor, cache: Cache) -> Sight:
        """Assign the next slots of `cache` to positions (B, Q) int64, `EMPTY` for padding; return rotation and mask."""
        cache.take(position_BQ)
        seen_BQS = allowed(self.kind, self.window, position_BQ[:, :, None], cache.positions[:, None, :])
        seen_BQS = seen_BQS & (cache.positions[:, None, :] != EMPTY)
        # All slots are visible to padding, because a softmax over no slots is NaN.
        return Sight(turns(position_BQ, self.width), (seen_BQS | (position_BQ == EMPTY)[:, :, None])[:, None])

    def step(self, x_BQC: Tensor, sight: Sight, cache: Cache, layer: int) -> Tensor:
        """In decoding, add new positions (B, Q, C) to the cache and attend to all of it -> (B, Q, C)."""
        query, key, value = self.heads_of(x_BQC, sight.turned)
        return self.joined(cache.attend(layer, query, key, value, sight.mask_B1QS))

    def heads_of(self, x_BTC: Tensor, turned: Turns) -> tuple[Tensor, Tensor, Tensor]:
        """Return rotated queries, rotated keys and values of (B, T, C), each (B, H, T, D)."""
        projected_BTHD = self.project(x_BTC).unflatten(-1, (3 * self.heads, self.width))
        to_turn_BHTD, value = _swapped(projected_BTHD).split([2 * self.heads, self.heads], dim=1)
        query, key = rotate(to_turn_BHTD, turned).chunk(2, dim=1)
        return query, key, value

    def joined(self, heard_BHTD: Tensor) -> Tensor:
        """Project the heads' output (B, H, T, D) to (B, T, C)."""
        return self.out(_swapped(heard_BHTD).flatten(2))


def _swapped(x: Tensor) -> Tensor:
    if 1 in (x.shape[1], x.shape[2]):  # reshape, so that graphs copy no data
        return x.reshape(-1, x.shape[2], x.shape[1], x.shape[3])
    return x.transpose(1, 2)
