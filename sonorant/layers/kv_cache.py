"""Key-value caches. All rows of a batch fill slots from the left."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional as F

EMPTY = -1
"""Position of an unused slot, which is invisible to all queries."""


class Cache(Protocol):
    """Interface of a cache for attention: call `take` once for Q positions, then `attend` once per layer."""

    @property
    def positions(self) -> Tensor:
        """Position of each slot, (B, S) int64, or `EMPTY`; includes the slots assigned by `take`."""

    def take(self, position_BQ: Tensor) -> None:
        """Assign the next Q slots to positions (B, Q) int64, `EMPTY` for padding."""

    def attend(self, layer: int, query_BHQD: Tensor, key_BHQD: Tensor, value_BHQD: Tensor, mask_B1QS: Tensor) -> Tensor:
        """Store a layer's keys and values in the slots assigned last, and attend with the mask -> (B, H, Q, D)."""


class StoringCache(ABC):
    @abstractmethod
    def extend(self, layer: int, key_BHQD: Tensor, value_BHQD: Tensor) -> tuple[Tensor, Tensor]:
        """Store a layer's keys and values in the slots assigned last; return those of all slots, (B, H, S, D) each."""

    def attend(self, layer: int, query_BHQD: Tensor, key_BHQD: Tensor, value_BHQD: Tensor, mask_B1QS: Tensor) -> Tensor:
        keys, values = (side.to(query_BHQD.dtype) for side in self.extend(layer, key_BHQD, value_BHQD))
        return F.scaled_dot_product_attention(query_BHQD, keys, values, attn_mask=mask_B1QS)


class DynamicCache(StoringCache):
    """A cache that grows by concatenation, with a new shape at every step."""

    def __init__(self, layers: int) -> None:
        self.positions = torch.empty(0)
        self.keys: list[Tensor] = []
        """Keys (B, H, S, D) of each layer; `values` has the same shapes."""
        self.values: list[Tensor] = []
        self._layers = layers

    def take(self, position_BQ: Tensor) -> None:
        self.positions = torch.cat([self.positions, position_BQ], 1) if self.positions.numel() else position_BQ

    def extend(self, layer: int, key_BHQD: Tensor, value_BHQD: Tensor) -> tuple[Tensor, Tensor]:
        if len(self.keys) < self._layers:
            self.keys.append(key_BHQD)
            self.values.append(value_BHQD)
        else:
            self.keys[layer] = torch.cat([self.keys[layer], key_BHQD], 2)
            self.values[layer] = torch.cat([self.values[layer], value_BHQD], 2)
        return self.keys[layer], self.values[layer]


class StaticCache(StoringCache):
    """A cache with buffers of fixed size, written in place. Writing past the last slot is undefined on a GPU."""

    def __init__(self, memory: Sequence[Tensor], *, batch: int, heads: int, slots: int, width: int) -> None:
        """Keys and values of a layer are (batch, heads, slots, width). `memory`: from `cache_memory`; several caches
        may share it if they are not used at the same time."""
        size = batch * heads * slots * width
        device, layers = memory[0].device, len(memory) // 2
        buffers = [flat[:size].view(batch, heads, slots, width) for flat in memory]
        self.keys, self.values = buffers[:layers], buffers[layers:]
        self.positions = torch.full((batch, slots), EMPTY, dtype=torch.int64, device=device)
        self.used = torch.zeros(1, dtype=torch.int64, device=device)
        self._taken = torch.empty(0)

    def take(self, position_BQ: Tensor) -> None:
        self._taken = self.used + torch.arange(position_BQ.shape[1], device=position_BQ.device)
        self.positions.index_copy_(1, self._taken, position_BQ)
        self.used.add_(position_BQ.shape[1])

    def extend(self, layer: int, key_BHQD: Tensor, value_BHQD: Tensor) -> tuple[Tensor, Tensor]:
        key_BHSD, value_BHSD = self.keys[layer], self.values[layer]
        key_BHSD.index_copy_(2, self._taken, key_BHQD.to(key_BHSD.dtype))
        value_BHSD.index_copy_(2, self._taken, value_BHQD.to(value_BHSD.dtype))
        return key_BHSD, value_BHSD

    def clear(self) -> None:
        for side in (*self.keys, *self.values):
            side.zero_()  # otherwise a masked NaN would remain NaN
        self.positions.fill_(EMPTY)
        self.used.zero_()


def cache_memory(layers: int, size: int, dtype: torch.dtype, device: torch.device) -> list[Tensor]:
    """Return two flat tensors of `size` elements per layer."""
    return [torch.zeros(size, dtype=dtype, device=device) for _ in range(2 * layers)]
