"""A float32 graph in 16 bits, with some nodes left in float32, chosen by `sonorant.export.ranges`.

The passes of ONNX Runtime and onnxconverter-common know float16 alone. Here every node gets all its floating-point
inputs in one type, as strongly typed engines require, with casts between. Inputs and outputs stay float32."""

from collections.abc import Collection
from dataclasses import dataclass, field

import ml_dtypes
import numpy as np
import onnx
import onnx_ir
from numpy.typing import DTypeLike, NDArray
from onnx import TensorProto, helper, numpy_helper
from onnxscript import version_converter


@dataclass(frozen=True, kw_only=True)
class HalfFormat:
    """A floating-point format of 16 bits."""

    name: str
    """As variants are called."""
    dtype: DTypeLike
    """numpy's type."""
    element: int
    """ONNX' type."""
    significand: int
    """Bits of the significand, the implicit one included."""
    opset: int
    """The oldest operator set in which every operator of the graphs takes the format."""

    @property
    def largest(self) -> float:
        """The largest finite value."""
        return float(ml_dtypes.finfo(self.dtype).max)

    @property
    def roundoff(self) -> float:
        """Largest relative error of rounding a value within the normal range."""
        return 2.0**-self.significand

    def rounded(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """float32 of any shape -> the nearest values of the format, infinite beyond `largest`."""
        with np.errstate(over="ignore"):
            return values.astype(self.dtype).astype(np.float32)


FORMATS = {
    "fp16": HalfFormat(name="fp16", dtype=np.float16, element=TensorProto.FLOAT16, significand=11, opset=18),
    "bf16": HalfFormat(name="bf16", dtype=ml_dtypes.bfloat16, element=TensorProto.BFLOAT16, significand=8, opset=22),
}


def to_half(model: onnx.ModelProto, half: HalfFormat, kept: Collection[str]) -> onnx.ModelProto:
    """A copy of a float32 graph that computes in `half` except in the nodes `kept`; of the format's opset at least."""
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
    """Type of each floating-point tensor in the new graph."""
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
        """Append a node with its casts. `outputs` renames the graph's outputs, which are cast at the end."""
        takes = [tensor for tensor in node.input if tensor in self.element]
        gives = [tensor for tensor in node.output if tensor in self.element]
        makes_floats = node.op_type == "Cast" and bool(gives)
        target = (
            self.half.element if (takes or makes_floats) and gives and node.name not in self.kept else TensorProto.FLOAT
        )
        if makes_floats:
            del node.attribute[:]
            node.attribute.append(helper.make_attribute("to", target))
        elif takes:  # those that give none, comparisons, take float32
            node.input[:] = [self._as(tensor, target) if tensor in self.element else tensor for tensor in node.input]
        self.element |= {outputs.get(tensor, tensor): target for tensor in gives}
        node.input[:] = [outputs.get(tensor, tensor) for tensor in node.input]
        node.output[:] = [outputs.get(tensor, tensor) for tensor in node.output]
        self.nodes.append(node)

    def _as(self, tensor: str, element: int) -> str:
        """Name under which a tensor is had in a type; a constant is stored in it, anything else cast once."""
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
    """Names of the float32 tensors of a graph: inputs, outputs, constants and all between."""
    graph = onnx.shape_inference.infer_shapes(model).graph
    values = [*graph.input, *graph.output, *graph.value_info]
    return {value.name for value in values if value.type.tensor_type.elem_type == TensorProto.FLOAT} | {
        constant.name for constant in graph.initializer if constant.data_type == TensorProto.FLOAT
    }
