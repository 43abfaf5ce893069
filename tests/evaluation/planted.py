from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx

SLOW = 700
"""Matrix size of `PLANTED_WORK`."""
PLANTED_NAN: Sequence[onnx.NodeProto] = (onnx.helper.make_node("Mul", ["right", "planted_nan"], ["samples"]),)
PLANTED_WORK: Sequence[onnx.NodeProto] = (
    onnx.helper.make_node("ReduceMax", ["right"], ["planted_scalar"], keepdims=0),
    onnx.helper.make_node("Mul", ["planted_matrix", "planted_scalar"], ["planted_0"]),
    *(onnx.helper.make_node("MatMul", [f"planted_{i}", "planted_matrix"], [f"planted_{i + 1}"]) for i in range(4)),
    onnx.helper.make_node("ReduceMax", ["planted_4"], ["planted_result"], keepdims=0),
    onnx.helper.make_node("Mul", ["planted_result", "planted_zero"], ["planted_nothing"]),
    onnx.helper.make_node("Add", ["right", "planted_nothing"], ["samples"]),
)
"""Slow, but does not change samples."""


def plant(graph: Path, out: Path, nodes: Sequence[onnx.NodeProto]) -> Path:
    """Insert `nodes` between the output of `graph`, renamed `right`, and `samples`."""
    model = onnx.load(graph)
    for node in model.graph.node:
        node.output[:] = ["right" if name == "samples" else name for name in node.output]
        node.input[:] = ["right" if name == "samples" else name for name in node.input]
    constants = {
        "planted_nan": np.float32(np.nan),
        "planted_zero": np.float32(0),
        "planted_matrix": np.full((SLOW, SLOW), 1e-3, np.float32),
    }
    used = {name for node in nodes for name in node.input}
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(np.array(v), k) for k, v in constants.items() if k in used
    )
    model.graph.node.extend(nodes)
    onnx.save(model, out)
    return out
