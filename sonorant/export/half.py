"""Convert float32 graphs to 16 bits. Nodes that would lose too much accuracy stay in float32; they are found from
intermediate values on real data.

Each node is tested alone, on inputs rounded to the format, and its result is rounded too. A node stays in float32 if a
value times `HEADROOM` overflows, or if its error exceeds `MAX_LOSS` roundings, as for the sine of a large phase; then
all nodes back to the last matrix product stay too, because rounding cannot be undone. A node whose result becomes an
integer always stays, because half precision cannot represent large counts exactly.

All floating-point inputs of a node have one type, as strongly typed engines require; inputs and outputs of the graph
stay float32. ONNX Runtime and onnxconverter-common convert only to float16; ModelOpt's AutoCast requires other versions
of onnx and onnxruntime.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import onnx
import onnx_ir
import onnxruntime
from numpy.typing import DTypeLike
from onnx import TensorProto, helper, numpy_helper
from onnxscript import version_converter

from sonorant.audio.arrays import Floats
from sonorant.export.distances import Arrays

HEADROOM = 8.0
MAX_LOSS = 8.0


@dataclass(frozen=True)
class HalfFormat:
    name: str
    dtype: DTypeLike
    element: int
    opset: int
    """Oldest operator set whose operators all support the format."""

    @property
    def largest(self) -> float:
        return float(ml_dtypes.finfo(self.dtype).max)

    @property
    def roundoff(self) -> float:
        """Maximum relative rounding error in the normal range."""
        return float(ml_dtypes.finfo(self.dtype).eps) / 2

    def rounded(self, values: Floats) -> Floats:
        """Round float32 to the format; values above `largest` become infinite."""
        with np.errstate(over="ignore"):
            return values.astype(self.dtype).astype(np.float32)


FORMATS = {
    "fp16": HalfFormat("fp16", np.float16, TensorProto.FLOAT16, opset=18),
    "bf16": HalfFormat("bf16", ml_dtypes.bfloat16, TensorProto.BFLOAT16, opset=22),
}


def to_half(model: onnx.ModelProto, half: HalfFormat, kept: Collection[str]) -> onnx.ModelProto:
    """Convert a float32 graph to `half` except the nodes `kept`, raising the operator set if required."""
    if model.opset_import[0].version < half.opset:
        raised = onnx_ir.serde.deserialize_model(model)
        version_converter.convert_version(raised, half.opset)
        model = onnx_ir.serde.serialize_model(raised)
    return _Conversion(model, half, kept).run()


class _Conversion:
    def __init__(self, model: onnx.ModelProto, half: HalfFormat, kept: Collection[str]) -> None:
        self.model = onnx.ModelProto()
        self.model.CopyFrom(model)
        self.half, self.kept = half, kept
        self.nodes: list[onnx.NodeProto] = []
        self.constants = {constant.name: constant for constant in self.model.graph.initializer}
        self.element: dict[str, int] = dict.fromkeys(float_tensors(model), TensorProto.FLOAT)
        """Type of each floating-point tensor in the new graph."""
        outputs = [value.name for value in model.graph.output if value.name in self.element]
        self.outputs = {name: f"{name}.{half.name}" for name in outputs}
        """New names of the graph's outputs before their final cast."""

    def run(self) -> onnx.ModelProto:
        graph = self.model.graph
        for node in graph.node:
            self._convert(node)
        for name, inner in self.outputs.items():
            self._cast(inner, name, TensorProto.FLOAT)
        used = {tensor for node in self.nodes for tensor in node.input}
        del graph.node[:], graph.initializer[:], graph.value_info[:]
        graph.node.extend(self.nodes)
        graph.initializer.extend(constant for name, constant in self.constants.items() if name in used)
        return onnx.shape_inference.infer_shapes(self.model, strict_mode=True)

    def _convert(self, node: onnx.NodeProto) -> None:
        takes = [tensor for tensor in node.input if tensor in self.element]
        gives = [tensor for tensor in node.output if tensor in self.element]
        makes_floats = node.op_type == "Cast" and bool(gives)
        halved = (takes or makes_floats) and gives and node.name not in self.kept
        target = self.half.element if halved else TensorProto.FLOAT
        if makes_floats:
            node.ClearField("attribute")
            node.attribute.append(helper.make_attribute("to", target))
        else:  # comparisons output no floats and stay in float32
            node.input[:] = [self._as(tensor, target) if tensor in self.element else tensor for tensor in node.input]
        self.element |= {self.outputs.get(tensor, tensor): target for tensor in gives}
        node.input[:] = [self.outputs.get(tensor, tensor) for tensor in node.input]
        node.output[:] = [self.outputs.get(tensor, tensor) for tensor in node.output]
        self.nodes.append(node)

    def _as(self, tensor: str, element: int) -> str:
        """Return the name of `tensor` in type `element`, inserting a converted constant or a cast once."""
        if self.element[tensor] == element:
            return tensor
        name = f"{tensor}.{self.half.name if element == self.half.element else 'fp32'}"
        if name not in self.element:
            self.element[name] = element
            if tensor in self.constants:
                values = numpy_helper.to_array(self.constants[tensor]).astype(self.half.dtype)
                self.constants[name] = numpy_helper.from_array(values, name)
            else:
                self._cast(tensor, name, element)
        return name

    def _cast(self, tensor: str, name: str, element: int) -> None:
        self.nodes.append(helper.make_node("Cast", [tensor], [name], name=f"cast_{name}", to=element))


def _elements(model: onnx.ModelProto) -> dict[str, int]:
    graph = onnx.shape_inference.infer_shapes(model).graph
    values = [*graph.input, *graph.output, *graph.value_info]
    elements = {value.name: value.type.tensor_type.elem_type for value in values}
    return elements | {constant.name: constant.data_type for constant in graph.initializer}


def float_tensors(model: onnx.ModelProto) -> set[str]:

    return {name for name, element in _elements(model).items() if element == TensorProto.FLOAT}


CONTRACTIONS = ("MatMul", "Gemm", "Conv", "ConvTranspose", "LayerNormalization")
"""Operators at which the search back from a rounding error stops."""


class NodeRange(NamedTuple):
    largest: float
    """Maximum absolute value of a node's inputs, outputs and internal sums."""
    loss: float
    """Relative error (Euclidean norm) of the result, in multiples of `roundoff`."""


def measure(model: onnx.ModelProto, cases: Iterable[Arrays], half: HalfFormat) -> dict[str, NodeRange]:
    """Return each floating-point node's maximum `NodeRange` over `cases` (inputs of the graph)."""
    floats, elements = float_tensors(model), _elements(model)
    constants = {constant.name: numpy_helper.to_array(constant) for constant in model.graph.initializer}
    nodes = [node for node in model.graph.node if floats & set(node.input) and floats & set(node.output)]
    alone = {node.name: _single(node, elements, model) for node in nodes}
    worst = {node.name: NodeRange(0.0, 0.0) for node in nodes}
    for values in _intermediates(model, elements, cases):
        for node in nodes:
            found = _measure_node(node, alone[node.name], constants | values, floats, half)
            worst[node.name] = NodeRange(*map(max, worst[node.name], found))
    return worst


def keep(model: onnx.ModelProto, ranges: dict[str, NodeRange], half: HalfFormat) -> dict[str, str]:
    """Return the nodes to keep in float32 with their reasons, in graph order."""
    floats, nodes = float_tensors(model), {node.name: node for node in model.graph.node}
    producers = {output: node for node in model.graph.node for output in node.output}
    reasons: dict[str, str] = {}

    def explain(node: onnx.NodeProto, reason: str) -> None:
        ahead = [node]
        while ahead:
            current = ahead.pop()
            if current.name in reasons:
                continue
            reasons[current.name] = reason if current is node else f"leads to {node.name}: {reason}"
            if current is node or current.op_type not in CONTRACTIONS:
                ahead += [producers[tensor] for tensor in current.input if tensor in producers and tensor in floats]

    casts = [node for node in model.graph.node if node.op_type == "Cast" and node.output[0] not in floats]
    counted = {node.input[0] for node in casts} & floats
    for node in model.graph.node:
        if counted & set(node.output):
            explain(node, "its result is cast to an integer")
    for name, found in ranges.items():
        if not found.loss <= MAX_LOSS:
            explain(nodes[name], f"{nodes[name].op_type} errs by {found.loss:.3g} roundings to {half.name}")
        if not found.largest * HEADROOM <= half.largest:
            reasons[name] = (
                f"values up to {found.largest:.3g} leave less than {HEADROOM:g} times headroom in {half.name}"
            )
    return {name: reasons[name] for name in nodes if name in reasons}


def _measure_node(
    node: onnx.NodeProto, session: onnxruntime.InferenceSession, tensors: Arrays, floats: set[str], half: HalfFormat
) -> NodeRange:
    inputs = {name: tensors[name] for name in node.input if name}
    exact = {name: tensors[name] for name in node.output if name}
    rounded = {name: half.rounded(values) if name in floats else values for name, values in inputs.items()}
    got = dict(zip(exact, session.run(list(exact), rounded), strict=True))
    touched = [tensors[name] for name in (*inputs, *exact) if name in floats]
    if node.op_type == "LayerNormalization":  # sums squares internally
        values = inputs[node.input[0]].astype(np.float64)
        touched.append(np.square(values - values.mean(-1, keepdims=True)).sum(-1))
    largest = max(float(np.abs(values).max(initial=0.0)) for values in touched)
    error = max(_relative(half.rounded(got[name]), exact[name]) for name in exact if name in floats)
    return NodeRange(largest, error / half.roundoff)


def _relative(got: Floats, exact: Floats) -> float:
    if not np.isfinite(got).all():
        return np.inf
    norm = float(np.linalg.norm(exact.astype(np.float64).ravel()))
    return float(np.linalg.norm((got.astype(np.float64) - exact).ravel())) / norm if norm else 0.0


def _intermediates(model: onnx.ModelProto, elements: dict[str, int], cases: Iterable[Arrays]) -> Iterator[Arrays]:

    wide = onnx.ModelProto()
    wide.CopyFrom(model)
    outputs = {value.name for value in model.graph.output}
    names = [tensor for node in model.graph.node for tensor in node.output if tensor and tensor in elements]
    wide.graph.output.extend(_shapeless(elements, (name for name in names if name not in outputs)))
    session = _session(wide)
    for case in cases:
        yield case | dict(zip(names, session.run(names, case), strict=True))


def _single(node: onnx.NodeProto, elements: dict[str, int], model: onnx.ModelProto) -> onnxruntime.InferenceSession:
    graph = helper.make_graph(
        [node], node.name, _shapeless(elements, dict.fromkeys(node.input)), _shapeless(elements, node.output)
    )
    return _session(helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version))


def _shapeless(elements: dict[str, int], names: Iterable[str]) -> list[onnx.ValueInfoProto]:
    return [helper.make_tensor_value_info(name, elements[name], None) for name in names if name]


def _session(model: onnx.ModelProto) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def export_halves(
    files: dict[str, Path], inputs: dict[str, list[Arrays]], folder: Path
) -> tuple[dict[str, dict[str, Path]], dict[str, Any]]:
    """Write `<graph>.<format>.onnx` to `folder` for every 16-bit format, from float32 graphs `files` and real `inputs`.

    Return the files by variant and graph, and the report `{variant: {graph: {nodes, kept: [{node, operator,
    reason}]}}}`.
    """
    written: dict[str, dict[str, Path]] = {}
    report: dict[str, Any] = {}
    for name, half in FORMATS.items():
        written[name], report[name] = {}, {}
        for graph, file in files.items():
            model = onnx.load(file)
            ranges = measure(model, inputs[graph], half)
            kept = keep(model, ranges, half)
            written[name][graph] = folder / f"{graph}.{name}.onnx"
            written[name][graph].write_bytes(to_half(model, half, kept).SerializeToString(deterministic=True))
            operators = {node.name: node.op_type for node in model.graph.node}
            rows = [{"node": node, "operator": operators[node], "reason": why} for node, why in kept.items()]
            report[name][graph] = {"nodes": len(ranges), "kept": rows}
    return written, report
