"""Causal self-attention in three kinds: everything before, a sliding window, or blocks. Knows nothing of the model around it.

Which key a query sees is said once, by `allowed`; everything here equals full attention under that mask. Sliding and block-local
attention look back less than two windows, so training cuts the sequence into windows and shows each its own and the one before it:
memory grows with the length, not with its square.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import nn
from torch.nn import functional as F

from sonorant.models.cache import EMPTY, Cache
from sonorant.models.rotary import Turns, rotate, turns

Kind = Literal["full", "sliding", "block"]
"""`full`: all positions up to one's own; `sliding`: the last `window` of them; `block`: those in one's own block of `window` positions
and in the block before it."""


def allowed(kind: Kind, window: int, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
    """Whether a query at one position may see a key at another; int64 positions that broadcast, bool of their joint shape."""
    seen = key <= query
    if kind == "sliding":
        return seen & (query - key < window)
    if kind == "block":
        return seen & (query // window - key // window <= 1)
    return seen


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
        if self.kind == "full" or x_BTC.shape[1] <= self.window:
            return self.joined(F.scaled_dot_product_attention(query, key, value, is_causal=True))
        return self.joined(self._by_windows(query, key, value))

    def sight(self, position_BQ: torch.Tensor, cache: Cache) -> Sight:
        """For `step`: takes the next slots of `cache` for these positions, (B, Q) int64, `EMPTY` where they are padding."""
        cache.take(position_BQ)
        seen_BQS = allowed(self.kind, self.window, position_BQ[:, :, None], cache.positions[:, None, :])
        seen_BQS = seen_BQS & (cache.positions[:, None, :] != EMPTY)
        # Padding sees all there is: a softmax over nothing would be no number.
        return Sight(turns(position_BQ, self.width), (seen_BQS | (position_BQ == EMPTY)[:, :, None])[:, None])

    def step(self, x_BQC: torch.Tensor, sight: Sight, cache: Cache, layer: int) -> torch.Tensor:
        """Some positions after those in the cache, which takes their keys and values as those of `layer`: (B, Q, C) to (B, Q, C)."""
        query, key, value = self.heads_of(x_BQC, sight.turned)
        keys, values = cache.extend(layer, key, value)
        return self.joined(
            F.scaled_dot_product_attention(query, keys.to(query.dtype), values.to(query.dtype), attn_mask=sight.mask_B1QS)
        )

    def heads_of(self, x_BTC: torch.Tensor, turned: Turns) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Queries and keys, turned, and values of (B, T, C), each (B, H, T, D)."""
        query, key, value = (
            part.unflatten(-1, (self.heads, self.width)).transpose(1, 2) for part in self.project(x_BTC).chunk(3, dim=-1)
        )
        return rotate(query, turned), rotate(key, turned), value

    def joined(self, heard_BHTD: torch.Tensor) -> torch.Tensor:
        """What the heads (B, H, T, D) heard, as (B, T, C)."""
        return self.out(heard_BHTD.transpose(1, 2).flatten(2))

    def _by_windows(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        """Attention of (B, H, T, D) whose slots are their positions, T above `window`, without ever building (T, T)."""
        batch, _, length, _ = query.shape
        window = self.window
        first = F.scaled_dot_product_attention(query[:, :, :window], key[:, :, :window], value[:, :, :window], is_causal=True)
        # The others have a window before them: all see their 2 * window keys under one and the same mask. Zeros behind the last slot
        # fill the last window; causality hides them.
        count = -(-length // window)
        behind = (0, 0, 0, count * window - length)
        own = F.pad(query[:, :, window:], behind).unflatten(2, (count - 1, window))
        keys, values = (
            torch.cat([padded[:, :, :-1], padded[:, :, 1:]], 3)
            for padded in (F.pad(side, behind).unflatten(2, (count, window)) for side in (key, value))
        )
        place = torch.arange(2 * window, device=query.device)
        mask = allowed(self.kind, window, place[window:, None], place[None])
        query, key, value = (side.transpose(1, 2).flatten(0, 1) for side in (own, keys, values))
        rest = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        rest = rest.unflatten(0, (batch, count - 1)).transpose(1, 2).flatten(2, 3)
        return torch.cat([first, rest[:, :, : length - window]], 2)
