"""float32 graphs in 16 bits. Nodes that 16 bits would harm stay in float32; they are found from intermediate values on
real data.

Each node is computed alone, from inputs rounded to the format, and its result is rounded too. A node stays in float32
if a value does not fit with `headroom`, or if its error exceeds `max_loss` roundings, as for the sine of a large phase;
then everything back to the last matrix product stays too, because a rounded value stays rounded. A node that ends in
integers always stays: half precision has no exact large counts.

ONNX Runtime's and onnxconverter-common's passes support float16 only, and ModelOpt's AutoCast requires other versions
of onnx and onnxruntime. Here all floating-point inputs of a node have one type, as strongly typed engines require.
Inputs and outputs of the graph stay float32."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnx_ir
import onnxruntime
from numpy.typing import DTypeLike, NDArray
from onnx import TensorProto, helper, numpy_helper
from onnxscript import version_converter

from sonorant.audio.arrays import Doubles, Floats
from sonorant.export.distances import Arrays
from sonorant.export.onnx_graph import ExportConfig


@dataclass(frozen=True, kw_only=True)
class HalfFormat:
    """A 16-bit floating-point format."""

    name: str
    """Of the variant."""
    dtype: DTypeLike
    element: int
    """ONNX' data type."""
    significand: int
    """Bits, with the implicit one."""
    opset: int
    """Oldest operator set whose operators all take the format."""

    @property
    def largest(self) -> float:
        """Largest finite value."""
        return float(ml_dtypes.finfo(self.dtype).max)

    @property
    def roundoff(self) -> float:
        """Largest relative rounding error in the normal range."""
        return 2.0**-self.significand

    def rounded(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """Round float32 to the format; infinite beyond `largest`."""
        with np.errstate(over="ignore"):
            return values.astype(self.dtype).astype(np.float32)


FORMATS = {
    "fp16": HalfFormat(name="fp16", dtype=np.float16, element=TensorProto.FLOAT16, significand=11, opset=18),
    "bf16": HalfFormat(name="bf16", dtype=ml_dtypes.bfloat16, element=TensorProto.BFLOAT16, significand=8, opset=22),
}


def to_half(model: onnx.ModelProto, half: HalfFormat, kept: Collection[str]) -> onnx.ModelProto:
    """Convert a float32 graph to `half`, except for the nodes `kept`; raises the opset if the format needs it."""
    if model.opset_import[0].version < half.opset:
        raised = onnx_ir.serde.deserialize_model(model)
        version_converter.convert_version(raised, half.opset)
        model = onnx_ir.serde.serialize_model(raised)
    return _Conversion(model, half, frozenset(kept)).run()


@dataclass
class _Conversion:
    source: onnx.ModelProto
    half: HalfFormat
    kept: frozenset[str]
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    element: dict[str, int] = field(default_factory=dict)
    """Of each floating-point tensor in the new graph."""
    constants: dict[str, onnx.TensorProto] = field(default_factory=dict)

    def run(self) -> onnx.ModelProto:
        model = onnx.ModelProto()
        model.CopyFrom(self.source)
        graph = model.graph
        self.constants = {constant.name: constant for constant in graph.initializer}
        self.element = dict.fromkeys(float_tensors(model), TensorProto.FLOAT)
        outputs = {value.name: f"{value.name}.{self.half.name}" for value in graph.output if value.name in self.element}
        for node in graph.node:
            self._convert(node, outputs)
        for name, inner in outputs.items():
            self._cast(inner, name, TensorProto.FLOAT)
        used = {tensor for node in self.nodes for tensor in node.input}
        for field_, values in (
            (graph.node, self.nodes),
            (graph.initializer, [constant for name, constant in self.constants.items() if name in used]),
        ):
            del field_[:]
            field_.extend(values)
        del graph.value_info[:]
        return onnx.shape_inference.infer_shapes(model, strict_mode=True)

    def _convert(self, node: onnx.NodeProto, outputs: dict[str, str]) -> None:
        """Append a node and its casts. `outputs`: new names of the graph's outputs, which are cast at the end."""
        takes = [tensor for tensor in node.input if tensor in self.element]
        gives = [tensor for tensor in node.output if tensor in self.element]
        makes_floats = node.op_type == "Cast" and bool(gives)
        target = (
            self.half.element if (takes or makes_floats) and gives and node.name not in self.kept else TensorProto.FLOAT
        )
        if makes_floats:
            del node.attribute[:]
            node.attribute.append(helper.make_attribute("to", target))
        elif takes:  # comparisons give none and take float32
            node.input[:] = [self._as(tensor, target) if tensor in self.element else tensor for tensor in node.input]
        self.element |= {outputs.get(tensor, tensor): target for tensor in gives}
        node.input[:] = [outputs.get(tensor, tensor) for tensor in node.input]
        node.output[:] = [outputs.get(tensor, tensor) for tensor in node.output]
        self.nodes.append(node)

    def _as(self, tensor: str, element: int) -> str:
        """Name of a tensor in a type: a converted constant, or a cast that is inserted once."""
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


def float_tensors(model: onnx.ModelProto) -> set[str]:
    """Names of all float32 tensors of a graph."""
    graph = onnx.shape_inference.infer_shapes(model).graph
    values = [*graph.input, *graph.output, *graph.value_info]
    return {value.name for value in values if value.type.tensor_type.elem_type == TensorProto.FLOAT} | {
        constant.name for constant in graph.initializer if constant.data_type == TensorProto.FLOAT
    }


CONTRACTIONS = ("MatMul", "Gemm", "Conv", "ConvTranspose", "LayerNormalization")
"""Operators at which the search back from a rounding error ends."""


@dataclass(frozen=True)
class NodeRange:
    """Measurements of a node."""

    node: str
    operator: str
    largest: float
    """Largest absolute value of its inputs, outputs and internal sums."""
    loss: float
    """Relative error (Euclidean norm) of its result, in roundoffs of the format."""


@dataclass(frozen=True)
class Kept:
    """A node that stays in float32."""

    node: str
    operator: str
    reason: str


def measure(model: onnx.ModelProto, cases: Iterable[Arrays], half: HalfFormat) -> list[NodeRange]:
    """Measure every floating-point node, in graph order; the worst over `cases` (inputs of the graph)."""
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
    """Nodes to keep in float32, in graph order."""
    reasons: dict[str, str] = {}
    for node in _counting(model):
        _explain(model, node, "its result is cast to an integer", reasons)
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
    """Record a reason for the node and those before it, back to and including the start of its chain."""
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
    """Nodes with a floating-point result that is cast to an integer."""
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
    if node.op_type == "LayerNormalization":  # sums squares internally
        touched.append(_sum_of_squares(inputs[node.input[0]]))
    largest = max(float(np.abs(values).max(initial=0.0)) for values in touched)
    error = max(_relative(half.rounded(got[name]), exact[name]) for name in compared)
    return NodeRange(node.name, node.op_type, largest, error / half.roundoff)


def _sum_of_squares(values: Floats) -> Doubles:
    """Over the last axis, of the deviations from its mean."""
    values = values.astype(np.float64)
    return np.square(values - values.mean(-1, keepdims=True)).sum(-1)


def _relative(got: Floats, exact: Floats) -> float:
    if not np.isfinite(got).all():
        return np.inf
    norm = float(np.linalg.norm(exact.astype(np.float64).ravel()))
    return float(np.linalg.norm((got.astype(np.float64) - exact).ravel())) / norm if norm else 0.0


def _intermediates(model: onnx.ModelProto, cases: Iterable[Arrays]) -> Iterator[Arrays]:
    """All tensors of a graph, for each case."""
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
    """A graph of one node."""
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


WORST = 5
"""Nodes in each list of the report."""


def export_halves(
    files: dict[str, Path], inputs: dict[str, list[Arrays]], folder: Path, config: ExportConfig
) -> tuple[dict[str, dict[str, Path]], dict[str, Any]]:
    """Write `<graph>.<format>.onnx` into `folder` for every format, from float32 graphs and real inputs of each.

    Returns the files by variant and graph, and the report `{variant: {graph: {nodes, kept: [{node, operator, reason}],
    largest: [{node, operator, largest, loss}], loss: [the same]}}}`, the last two worst first.
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
    # JSON has no infinity; overflows are among `kept`.
    finite = [node for node in ranges if node.loss < float("inf") and node.largest < float("inf")]
    return {
        "nodes": len(ranges),
        "kept": [asdict(node) for node in kept],
        "largest": [asdict(node) for node in sorted(finite, key=lambda node: -node.largest)[:WORST]],
        "loss": [asdict(node) for node in sorted(finite, key=lambda node: -node.loss)[:WORST]],
    }
