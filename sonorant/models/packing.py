"""Rows with padding anywhere made rows with padding behind, so that a slot is its position. Knows nothing of what the rows hold."""

from __future__ import annotations

import torch


class Packing:
    """The order that brings what is real of each row to the front; made once for a batch, used on all that goes with it."""

    def __init__(self, valid_BT: torch.Tensor) -> None:
        """`valid_BT`: which slots are no padding, bool."""
        self.order_BT = valid_BT.logical_not().to(torch.int8).argsort(dim=1, stable=True)

    def pack(self, x_BTC: torch.Tensor) -> torch.Tensor:
        """Rows (B, T, C) in that order; a row's valid slots keep their own order, and so does its padding."""
        return x_BTC.gather(1, self.order_BT[..., None].expand_as(x_BTC))

    def unpack(self, x_BTC: torch.Tensor) -> torch.Tensor:
        """Undo `pack`."""
        return torch.empty_like(x_BTC).scatter(1, self.order_BT[..., None].expand_as(x_BTC), x_BTC)
