"""Transformer layers of the codec language model."""

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from sonorant.layers.attention import Kind, SelfAttention, Sight, Turns, turns
from sonorant.layers.convnext import Dropout
from sonorant.layers.kv_cache import Cache


class RMSNorm(nn.RMSNorm):
    """RMSNorm (Zhang & Sennrich 2019), exported in a form that ONNX Runtime fuses."""

    def forward(self, x: Tensor) -> Tensor:
        if not torch.compiler.is_exporting():
            return super().forward(x)
        assert self.eps is not None
        return x / (x.pow(2).mean(-1, keepdim=True) + self.eps).sqrt() * self.weight


class Packing:
    """Moves valid slots to the front, so that a slot's index is its position."""

    def __init__(self, valid_BT: Tensor) -> None:
        """`valid_BT`: bool, False for padding."""
        self.order_BT = valid_BT.logical_not().to(torch.int8).argsort(dim=1, stable=True)

    def pack(self, x_BTC: Tensor) -> Tensor:
        return x_BTC.gather(1, self.order_BT[..., None].expand_as(x_BTC))

    def unpack(self, x_BTC: Tensor) -> Tensor:
        return torch.empty_like(x_BTC).scatter(1, self.order_BT[..., None].expand_as(x_BTC), x_BTC)


class TransformerLayer(nn.Module):
    """Self-attention, then a SwiGLU MLP, each on the RMS-normed input, without biases (Touvron et al. 2023, "LLaMA",
    section 2.2)."""

    def __init__(
        self, channels: int, heads: int, feed_forward: int, dropout: float, attention: Kind, window: int
    ) -> None:
        super().__init__()
        self.attention_norm = RMSNorm(channels, eps=1e-5)
        self.attention = SelfAttention(channels, heads, attention, window)
        self.norm = RMSNorm(channels, eps=1e-5)
        self.expand = nn.Linear(channels, 2 * feed_forward, bias=False)
        self.contract = nn.Linear(feed_forward, channels, bias=False)
        self.dropout = Dropout(dropout)

    def forward(self, x_BTC: Tensor, turned: Turns) -> Tensor:
        """Compute the layer in training: (B, T, C) -> (B, T, C), padding last."""
        x_BTC = x_BTC + self.dropout(self.attention(self.attention_norm(x_BTC), turned))
        return x_BTC + self.dropout(self._mlp(self.norm(x_BTC)))

    def step(self, x_BQC: Tensor, sight: Sight, cache: Cache, layer: int) -> Tensor:
        """Decode the next Q positions of each row, as in `SelfAttention.step`: (B, Q, C) -> (B, Q, C)."""
        x_BQC = x_BQC + self.attention.step(self.attention_norm(x_BQC), sight, cache, layer)
        return x_BQC + self._mlp(self.norm(x_BQC))

    def _mlp(self, x: Tensor) -> Tensor:
        gate, value = self.expand(x).chunk(2, dim=-1)
        return self.contract(F.silu(gate) * value)


class Transformer(nn.Module):
    def __init__(
        self, layers: int, channels: int, heads: int, feed_forward: int, dropout: float, attention: Kind, window: int
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            TransformerLayer(channels, heads, feed_forward, dropout, attention, window) for _ in range(layers)
        )
        self.norm = RMSNorm(channels, eps=1e-5)
        self.width = channels // heads
        self.recompute = False  # activation checkpointing, see training/networks.py

    def forward(self, x_BTC: Tensor) -> Tensor:
        """Compute all layers in training: (B, T, C) -> (B, T, C), slot = position, padding last."""
        turned = turns(torch.arange(x_BTC.shape[1], device=x_BTC.device)[None], self.width)
        for layer in self.layers:
            recompute = self.recompute and torch.is_grad_enabled()
            x_BTC = checkpoint(layer, x_BTC, turned, use_reentrant=False) if recompute else layer(x_BTC, turned)
        return self.norm(x_BTC)

    def step(self, x_BQC: Tensor, position_BQ: Tensor, cache: Cache) -> Tensor:
        """Decode the next Q positions of each row, (B, Q) int64, where -1 is padding: (B, Q, C) -> (B, Q, C)."""
        layers = [cast(TransformerLayer, layer) for layer in self.layers]
        sight = layers[0].attention.sight(position_BQ, cache)
        for number, layer in enumerate(layers):
            x_BQC = layer.step(x_BQC, sight, cache, number)
        return self.norm(x_BQC)
