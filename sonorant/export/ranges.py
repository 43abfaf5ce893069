"""Find the nodes that 16 bits would harm, from intermediate values on real data.

Each node is computed again by itself, from inputs rounded to the format, and its result is rounded too. A node stays in
float32 if a value does not fit with `headroom`, or if it errs by more than `loss` roundings, as the sine of a large
phase does; everything back to the last matrix product then stays too, because what was rounded stays rounded. A node
that ends in integers always stays: half precision has no exact large counts."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

from sonorant.audio.arrays import Doubles, Floats
from sonorant.export.distances import Arrays
from sonorant.export.half import FORMATS, HalfFormat, float_tensors, to_half
from sonorant.export.onnx_graph import ExportConfig

CONTRACTIONS = ("MatMul", "Gemm", "Conv", "ConvTranspose", "LayerNormalization")
"""Operators that begin a chain of operations on single values: the way back from a rounding error ends here."""


@dataclass(frozen=True)
class NodeRange:
    """A node on the measured data."""

    node: str
    operator: str
    largest: float
    """Of the absolute values of its floating-point inputs and outputs, and of what it adds up in between."""
    loss: float
    """Relative error (root of summed squares) of its result in the format, in roundoffs of the format."""


@dataclass(frozen=True)
class Kept:
    """A node that stays in float32."""

    node: str
    operator: str
    reason: str
    """For a person, with the figure."""


def measure(model: onnx.ModelProto, cases: Iterable[Arrays], half: HalfFormat) -> list[NodeRange]:
    """Figures of every node that computes with floats, in graph order; the worst over `cases`, inputs of the graph."""
    floats = float_tensors(model)
    constants = {constant.name: numpy_helper.to_array(constant) for constant in model.graph.initializer}
    elements = _elements(model)
    nodes = [node for node in model.graph.node if floats & set(node.input) and floats & set(node.output)]
    alone = {node.name: _single(node, elements, model) for node in nodes}
    worst = {node.name: NodeRange(node.name, node.op_type, 0.0, 0.0) for node in nodes}
    for values in _intermediates(model, cases):
        tensors = constants | values
        for node in nodes:
            found = _measure_node(node, alone[node.name], tensors, floats, half)
            before = worst[node.name]
            worst[node.name] = NodeRange(
                node.name, node.op_type, max(before.largest, found.largest), max(before.loss, found.loss)
            )
    return list(worst.values())


def keep(
    model: onnx.ModelProto, ranges: Sequence[NodeRange], half: HalfFormat, *, headroom: float, loss: float
) -> list[Kept]:
    """The nodes to leave in float32, in the graph's order."""
    reasons: dict[str, str] = {}
    for node in _counting(model):
        _explain(model, node, "what it gives ends as a whole number", reasons)
    nodes = {node.name: node for node in model.graph.node}
    for found in ranges:
        if not found.loss <= loss:
            _explain(
                model, nodes[found.node], f"{found.operator} errs by {found.loss:.3g} roundings to {half.name}", reasons
            )
        if not found.largest * headroom <= half.largest:
            reasons[found.node] = (
                f"values up to {found.largest:.3g} leave less than {headroom:g} times headroom in {half.name}"
            )
    return [Kept(name, node.op_type, reasons[name]) for name, node in nodes.items() if name in reasons]


def _explain(model: onnx.ModelProto, node: onnx.NodeProto, reason: str, reasons: dict[str, str]) -> None:
    """Give a reason to the node and all before it, back to and including the start of its chain."""
    floats = float_tensors(model)
    producers = {output: node for node in model.graph.node for output in node.output}
    ahead = [node]
    while ahead:
        current = ahead.pop()
        if current.name in reasons:
            continue
        reasons[current.name] = reason if current is node else f"leads to {node.name}: {reason}"
        if current is node or current.op_type not in CONTRACTIONS:
            ahead += [producers[tensor] for tensor in current.input if tensor in producers and tensor in floats]


def _counting(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    """Nodes whose floating-point result is cast to an integer."""
    floats = float_tensors(model)
    cast = {node.input[0] for node in model.graph.node if node.op_type == "Cast" and node.output[0] not in floats}
    return (node for node in model.graph.node if cast & floats & set(node.output))


def _measure_node(
    node: onnx.NodeProto, session: onnxruntime.InferenceSession, tensors: Arrays, floats: set[str], half: HalfFormat
) -> NodeRange:
    inputs = {name: tensors[name] for name in node.input if name}
    exact = {name: tensors[name] for name in node.output if name}
    rounded = {name: half.rounded(values) if name in floats else values for name, values in inputs.items()}
    got = dict(zip(exact, session.run(list(exact), rounded), strict=True))
    compared = [name for name in exact if name in floats]
    touched = [tensors[name] for name in (*inputs, *exact) if name in floats]
    if node.op_type == "LayerNormalization":  # which adds up squares before it divides
        touched.append(_sum_of_squares(inputs[node.input[0]]))
    largest = max(float(np.abs(values).max(initial=0.0)) for values in touched)
    error = max(_relative(half.rounded(got[name]), exact[name]) for name in compared)
    return NodeRange(node.name, node.op_type, largest, error / half.roundoff)


def _sum_of_squares(values: Floats) -> Doubles:
    """Over the last axis, of the distances from its mean."""
    values = values.astype(np.float64)
    return np.square(values - values.mean(-1, keepdims=True)).sum(-1)


def _relative(got: Floats, exact: Floats) -> float:
    if not np.isfinite(got).all():
        return np.inf
    norm = float(np.linalg.norm(exact.astype(np.float64).ravel()))
    return float(np.linalg.norm((got.astype(np.float64) - exact).ravel())) / norm if norm else 0.0


def _intermediates(model: onnx.ModelProto, cases: Iterable[Arrays]) -> Iterator[Arrays]:
    """Every tensor that a graph computes, for each case."""
    wide = onnx.ModelProto()
    wide.CopyFrom(model)
    elements = _elements(model)
    outputs = {value.name for value in model.graph.output}
    names = [tensor for node in model.graph.node for tensor in node.output if tensor and tensor in elements]
    wide.graph.output.extend(
        helper.make_tensor_value_info(name, elements[name], None) for name in names if name not in outputs
    )
    session = _session(wide)
    for case in cases:
        yield case | dict(zip(names, session.run(names, case), strict=True))


def _single(node: onnx.NodeProto, elements: dict[str, int], model: onnx.ModelProto) -> onnxruntime.InferenceSession:
    """A node as a graph of its own, of which all inputs are given."""
    inputs = [helper.make_tensor_value_info(name, elements[name], None) for name in dict.fromkeys(node.input) if name]
    outputs = [helper.make_tensor_value_info(name, elements[name], None) for name in node.output if name]
    graph = helper.make_graph([node], node.name, inputs, outputs)
    return _session(helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version))


def _session(model: onnx.ModelProto) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def _elements(model: onnx.ModelProto) -> dict[str, int]:
    graph = onnx.shape_inference.infer_shapes(model).graph
    values = [*graph.input, *graph.output, *graph.value_info]
    elements = {value.name: value.type.tensor_type.elem_type for value in values}
    return elements | {constant.name: constant.data_type for constant in graph.initializer}


TOLD = 5
"""Nodes of the largest values, and of the largest errors, in the report."""


def export_halves(
    files: dict[str, Path], inputs: dict[str, list[Arrays]], folder: Path, config: ExportConfig
) -> tuple[dict[str, dict[str, Path]], dict[str, Any]]:
    """Write `<graph>.<format>.onnx` into `folder` for every format, from float32 graphs and real inputs of each.

    Returns the written files by variant and graph, and the report: `{variant: {graph: {nodes, kept: [{node, operator,
    reason}], largest: [{node, operator, largest, loss}], loss: [the same]}}}`, the last two worst first.
    """
    written: dict[str, dict[str, Path]] = {}
    report: dict[str, Any] = {}
    for name, half in FORMATS.items():
        written[name], report[name] = {}, {}
        for graph, file in files.items():
            model = onnx.load(file)
            ranges = measure(model, inputs[graph], half)
            kept = keep(model, ranges, half, headroom=config.headroom, loss=config.max_loss)
            written[name][graph] = folder / f"{graph}.{name}.onnx"
            halved = to_half(model, half, [node.node for node in kept])
            written[name][graph].write_bytes(halved.SerializeToString(deterministic=True))
            report[name][graph] = _report(ranges, kept)
    return written, report


def _report(ranges: Sequence[NodeRange], kept: Sequence[Kept]) -> dict[str, Any]:
    # JSON knows no infinity: what overflows is told by its reason.
    finite = [node for node in ranges if node.loss < float("inf") and node.largest < float("inf")]
    return {
        "nodes": len(ranges),
        "kept": [asdict(node) for node in kept],
        "largest": [asdict(node) for node in sorted(finite, key=lambda node: -node.largest)[:TOLD]],
        "loss": [asdict(node) for node in sorted(finite, key=lambda node: -node.loss)[:TOLD]],
    }
