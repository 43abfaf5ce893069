"""Root-mean-square normalisation that exported graphs fuse to one operator. Knows nothing of the layers around it."""

from __future__ import annotations

import torch
from torch import nn


class RMSNorm(nn.RMSNorm):
    """Zhang & Sennrich 2019, "Root Mean Square Layer Normalization", section 3, as `nn.RMSNorm`."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(..., C) float -> the same shape and dtype."""
        if not torch.compiler.is_exporting():
            return super().forward(x)
        assert self.eps is not None
        # torch's own becomes a product with a reciprocal, which ONNX Runtime does not know for what it is and computes in seven operators.
        return x / (x.pow(2).mean(-1, keepdim=True) + self.eps).sqrt() * self.weight
