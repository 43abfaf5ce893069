"""ONNX operators that torch does not provide. Importing this module imports torch's compiler, which takes two
seconds."""

import torch
from torch import Tensor

VERSION = 19
"""Version of both operators. Graphs use operator set 20: with 21, ONNX Runtime 1.31 moves these operators past
transpositions with a wrong type and then rejects the graph."""


@torch.compiler.allow_in_graph  # prevents tracing into torch.onnx
def quantize(x: Tensor, scale: Tensor, zero: Tensor) -> Tensor:
    """Apply QuantizeLinear: float32 of any shape, scale () float32, zero-point () int8 -> int8 of the same shape."""
    return torch.onnx.ops.symbolic("QuantizeLinear", (x, scale, zero), dtype=torch.int8, shape=x.shape, version=VERSION)


@torch.compiler.allow_in_graph
def dequantize(stored: Tensor, scale: Tensor, zero: Tensor, axis: int = 0) -> Tensor:
    """Apply DequantizeLinear: int8 of any shape; scale and zero-point () or one per index along `axis` -> float32."""
    inputs, attributes = (stored, scale, zero), {"axis": axis} if scale.ndim else {}
    return torch.onnx.ops.symbolic(
        "DequantizeLinear", inputs, {**attributes}, dtype=torch.float32, shape=stored.shape, version=VERSION
    )
