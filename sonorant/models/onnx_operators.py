"""ONNX operators that torch has no counterpart of, for models that are being exported. Knows nothing of layers.

Importing this imports torch's compiler, so it is done only where a model is traced.
"""

from __future__ import annotations

import torch

VERSION = 19
"""Of both operators. Graphs are written at operator set 20: at 21, ONNX Runtime 1.31 moves such operators past transpositions with a
type that no longer fits, and then refuses its own graph."""


@torch.compiler.allow_in_graph  # the tracer does not look into torch.onnx, and need not
def quantize(x: torch.Tensor, scale: torch.Tensor, zero: torch.Tensor) -> torch.Tensor:
    """QuantizeLinear: float32 of any shape, scale () float32, zero-point () int8 -> int8 of the same shape."""
    return torch.onnx.ops.symbolic("QuantizeLinear", (x, scale, zero), dtype=torch.int8, shape=x.shape, version=VERSION)


@torch.compiler.allow_in_graph
def dequantize(stored: torch.Tensor, scale: torch.Tensor, zero: torch.Tensor, axis: int = 0) -> torch.Tensor:
    """DequantizeLinear: int8 of any shape, scale and zero-point () or one for each index along `axis` -> float32 of the same shape."""
    inputs, attributes = (stored, scale, zero), {"axis": axis} if scale.ndim else {}
    return torch.onnx.ops.symbolic(
        "DequantizeLinear", inputs, {**attributes}, dtype=torch.float32, shape=stored.shape, version=VERSION
    )
