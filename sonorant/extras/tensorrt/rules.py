"""Check statically, without TensorRT, whether TensorRT would accept a graph.

Sources: docs/operators.md of onnx-tensorrt for TensorRT 10.15 and the ONNX opset guide of TensorRT 11; where they
differ, only what both accept is allowed. TensorRT documentation, "Explicit Quantization": zero points are zero; scales
are build-time constants of the computed type, one per tensor or, for weights, per output channel. "Strongly Typed
Networks": types come from the graph alone. "Dynamic Shapes" and "CUDA Graphs": no shape may depend on a value.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

from sonorant.errors import SonorantError

OPSETS = (9, 24)
"""First and last supported operator set."""
_FLOATS = frozenset({"float32", "float16", "bfloat16"})
_NUMBERS = _FLOATS | {"int32", "int64"}
_ANY = _NUMBERS | {"bool"}
_BY_TYPES: tuple[tuple[frozenset[str], str], ...] = (
    (
        _FLOATS,
        "BatchNormalization Ceil Celu Clip Conv ConvTranspose Cos Cosh CumSum Dropout Einsum Elu Erf Exp Floor "
        "Gelu Gemm GlobalAveragePool GroupNormalization HardSigmoid HardSwish InstanceNormalization IsInf "
        "LayerNormalization LeakyRelu Log LogSoftmax MatMul PRelu QuantizeLinear Reciprocal RMSNormalization Round "
        "Selu Sigmoid Sin Sinh Softmax Softplus Softsign Sqrt Tan Tanh",
    ),
    (
        _NUMBERS,
        "Abs Add ArgMax ArgMin Div Equal Greater GreaterOrEqual IsNaN Less LessOrEqual Max Mean Min Mod Mul Neg "
        "Pad Pow Range ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd "
        "ReduceSum ReduceSumSquare Relu ScatterElements ScatterND Sign Sub Sum TopK",
    ),
    (
        _ANY,
        "Concat Constant ConstantOfShape Expand Flatten Gather GatherElements GatherND Identity OneHot Reshape "
        "Shape Size Slice Split Squeeze Tile Transpose Trilu Unsqueeze Where",
    ),
    (_ANY | {"uint8"}, "Cast CastLike"),
    (frozenset({"bool"}), "And Not Or Xor"),
    (frozenset({"int8"}), "DequantizeLinear"),
)
TYPES: dict[str, frozenset[str]] = {operator: types for types, operators in _BY_TYPES for operator in operators.split()}
"""Supported element types of each operator's data (not of indices, axes and scales), as numpy names."""
CONSTANT_INPUTS = {
    "CumSum": (1,), "Squeeze": (1,), "Unsqueeze": (1,), "QuantizeLinear": (1, 2), "DequantizeLinear": (1, 2),
    "OneHot": (1,), "Pad": (3,), "ReduceL1": (1,), "ReduceL2": (1,), "ReduceLogSum": (1,), "ReduceLogSumExp": (1,),
    "ReduceMax": (1,), "ReduceMean": (1,), "ReduceMin": (1,), "ReduceProd": (1,), "ReduceSum": (1,),
    "ReduceSumSquare": (1,),
}  # fmt: skip
"""Inputs of each operator, by position, that must be known at build time."""
SHAPE_INPUTS = {
    "ConstantOfShape": (0,), "Expand": (1,), "Pad": (1,), "Range": (0, 1, 2), "Reshape": (1,), "Slice": (1, 2, 3, 4),
    "Split": (1,), "Tile": (1,), "TopK": (1,),
}  # fmt: skip
"""Inputs of each operator, by position, that determine the output's shape."""
WEIGHT_AXIS = {"Conv": 0, "ConvTranspose": 1, "Gemm": 1, "MatMul": 1}
"""Output-channel axis of each operator's weights (input 1), along which scales may differ."""
MOST_DIMENSIONS = 8
"""Maximum number of dimensions (`Dims::MAX_DIMS`)."""


def check_graph(path: Path) -> list[str]:
    """Return the problems found in an ONNX file, one line each; empty if TensorRT should accept it. Raises
    SonorantError if the file is not an ONNX graph."""
    try:
        model = onnx.shape_inference.infer_shapes(onnx.load(path), data_prop=True)
    except Exception as error:  # onnx raises many kinds of exceptions for a damaged file
        raise SonorantError(
            f"{path}: not an ONNX graph ({' '.join(str(error).split())[:120]}); export it again"
        ) from None
    graph = _Graph(model)
    return [*_of_the_file(graph), *_of_the_nodes(graph)]


class _Graph:
    def __init__(self, model: onnx.ModelProto) -> None:
        self.model = model
        self.nodes = model.graph.node
        self.opset = next((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), 0)
        self.constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
        for node in self.nodes:
            if node.op_type == "Constant" and node.attribute[0].name == "value":
                self.constants[node.output[0]] = numpy_helper.to_array(node.attribute[0].t)
        self.values = {
            value.name: value.type.tensor_type
            for value in [*model.graph.input, *model.graph.output, *model.graph.value_info]
        }
        self.producers = {output: node for node in self.nodes for output in node.output}
        self.consumers: defaultdict[str, list[tuple[onnx.NodeProto, int]]] = defaultdict(list)
        for node in self.nodes:
            for place, name in enumerate(node.input):
                self.consumers[name].append((node, place))
        self.valued = self._follow_values()

    def type_of(self, tensor: str) -> str:
        if tensor in self.constants:
            return self.constants[tensor].dtype.name
        element = self.values[tensor].elem_type if tensor in self.values else onnx.TensorProto.UNDEFINED
        return helper.tensor_dtype_to_np_dtype(element).name if element else "unknown"

    def _follow_values(self) -> set[str]:
        """Return the tensors that depend on the values of the graph's inputs, not only on their shapes."""
        valued = {value.name for value in self.model.graph.input} - set(self.constants)
        for node in self.nodes:  # in the order of computation, as ONNX requires
            if node.op_type not in ("Shape", "Size") and valued & set(node.input):
                valued.update(node.output)
        return valued


def _of_the_file(graph: _Graph) -> Iterator[str]:
    lowest, highest = OPSETS
    if not lowest <= graph.opset <= highest:
        yield f"operator set {graph.opset} is unsupported; TensorRT supports {lowest} to {highest}"
    for value in [*graph.model.graph.input, *graph.model.graph.output]:
        if graph.type_of(value.name) not in TYPES["Cast"]:
            allowed = ", ".join(sorted(TYPES["Cast"]))
            yield f"input or output '{value.name}' is {graph.type_of(value.name)}; supported are {allowed}"


def _of_the_nodes(graph: _Graph) -> Iterator[str]:
    for node in graph.nodes:
        supported = node.domain in ("", "ai.onnx") and node.op_type in TYPES
        rules = RULES if supported else (_unsupported,)
        for rule in rules:
            for finding in rule(graph, node):
                yield f"node '{node.name or node.output[0]}' ({node.op_type}): {finding}"


def _unsupported(graph: _Graph, node: onnx.NodeProto) -> Iterator[str]:
    yield f"not an operator that TensorRT supports{f' (domain {node.domain})' if node.domain else ''}"


def _types(graph: _Graph, node: onnx.NodeProto) -> Iterator[str]:
    for name in _data(graph, node):
        if graph.type_of(name) not in TYPES[node.op_type]:
            yield f"'{name}' is {graph.type_of(name)}; supported are {', '.join(sorted(TYPES[node.op_type]))}"


def _data(graph: _Graph, node: onnx.NodeProto) -> list[str]:
    schema = onnx.defs.get_schema(node.op_type, graph.opset)
    variables = {constraint.type_param_str for constraint in schema.type_constraints}
    wanted = {"Cast": {"T1", "T2"}, "ConstantOfShape": {"T2"}, "OneHot": {"T3"}}.get(
        node.op_type, {"T" if "T" in variables else "T1"}
    )
    named = []
    for formals, names in ((schema.inputs, node.input), (schema.outputs, node.output)):
        named += [
            name
            for place, name in enumerate(names)
            if name and formals[min(place, len(formals) - 1)].type_str in wanted
        ]
    return named


def _constant_inputs(graph: _Graph, node: onnx.NodeProto) -> Iterator[str]:
    for name in _inputs(node, CONSTANT_INPUTS.get(node.op_type, ())):
        if name not in graph.constants:
            yield f"'{name}' must be a constant"


def _shapes(graph: _Graph, node: onnx.NodeProto) -> Iterator[str]:
    for name in _inputs(node, SHAPE_INPUTS.get(node.op_type, ())):
        if name in graph.valued:
            yield f"its shape depends on a value: '{name}' is computed from the values of inputs"


def _inputs(node: onnx.NodeProto, places: tuple[int, ...]) -> list[str]:
    return [node.input[place] for place in places if place < len(node.input) and node.input[place]]


def _outputs(graph: _Graph, node: onnx.NodeProto) -> Iterator[str]:
    if node.op_type in ("LayerNormalization", "Dropout", "BatchNormalization") and any(node.output[1:]):
        yield f"TensorRT computes only its first output, not '{node.output[1]}'"
    for name in node.output:
        if name in graph.values and len(graph.values[name].shape.dim) > MOST_DIMENSIONS:
            yield f"'{name}' has more than {MOST_DIMENSIONS} dimensions"


def _quantization(graph: _Graph, node: onnx.NodeProto) -> Iterator[str]:
    if node.op_type not in ("QuantizeLinear", "DequantizeLinear"):
        return
    quantizes = node.op_type == "QuantizeLinear"
    source, scale_name, *zero = node.input
    computed, stored = (source, node.output[0]) if quantizes else (node.output[0], source)
    if graph.type_of(stored) != "int8":
        yield f"'{stored}' is {graph.type_of(stored)}, but must be int8"
    if zero and np.any(graph.constants.get(zero[0], 0)):
        yield f"zero point '{zero[0]}' must be 0: TensorRT quantises symmetrically"
    if graph.type_of(computed) != graph.type_of(scale_name):
        types = f"scale '{scale_name}' is {graph.type_of(scale_name)}, '{computed}' is {graph.type_of(computed)}"
        yield f"{types}; they must have the same type"
    if not quantizes and source not in graph.constants and not _made_by(graph, source, "QuantizeLinear"):
        yield f"'{source}' is neither a constant nor the output of a QuantizeLinear"
    scale = graph.constants.get(scale_name)
    if scale is not None:
        yield from _scale(graph, node, scale.astype(np.float64))


def _made_by(graph: _Graph, tensor: str, operator: str) -> bool:
    return tensor in graph.producers and graph.producers[tensor].op_type == operator


def _scale(graph: _Graph, node: onnx.NodeProto, scale: np.ndarray) -> Iterator[str]:
    if not (np.isfinite(scale).all() and (scale > 0).all()):
        yield f"scale '{node.input[1]}' must be finite and above 0"
    if scale.ndim == 0 or scale.shape == (1,):
        return
    weight = graph.constants.get(node.input[0])
    if weight is None and _made_by(graph, node.input[0], "QuantizeLinear"):
        weight = graph.constants.get(graph.producers[node.input[0]].input[0])
    if weight is None:
        yield f"activations must have one scale, but '{node.input[1]}' has {scale.size}"
        return
    axis = next((attribute.i for attribute in node.attribute if attribute.name == "axis"), 1) % weight.ndim
    if scale.shape != (weight.shape[axis],):
        yield f"scale '{node.input[1]}' of shape {scale.shape} does not fit axis {axis} of weights {weight.shape}"
    for consumer, place in graph.consumers[node.output[0]]:
        wanted = WEIGHT_AXIS.get(consumer.op_type)
        if place == 1 and wanted is not None and axis != wanted:
            yield f"weights of {consumer.op_type} must have scales along axis {wanted}, not axis {axis}"


RULES: tuple[Callable[[_Graph, onnx.NodeProto], Iterator[str]], ...] = (
    _types,
    _constant_inputs,
    _shapes,
    _outputs,
    _quantization,
)
