"""What TensorRT's ONNX parser takes: operators, element types, operator sets. Knows nothing of the graphs it is compared with.

After docs/operators.md of onnx-tensorrt for TensorRT 10.15 and the ONNX opset guide of TensorRT 11 (maximum 25); where they differ, what
both take. Operators with restrictions that no speech model here needs (images, sequences, recurrent cells, control flow) are left out,
so they count as not supported. TensorRT 11.2 and later also take DFT.
"""

from __future__ import annotations

OPSETS = (9, 24)
"""Operator sets that are read, the lowest and the highest."""

_FLOATS = frozenset({"float32", "float16", "bfloat16"})
_NUMBERS = _FLOATS | {"int32", "int64"}
_ANY = _NUMBERS | {"bool"}

_BY_TYPES: tuple[tuple[frozenset[str], str], ...] = (
    (
        _FLOATS,
        "BatchNormalization Ceil Celu Clip Conv ConvTranspose Cos Cosh CumSum Dropout Einsum Elu Erf Exp Floor Gelu Gemm GlobalAveragePool "
        "GroupNormalization HardSigmoid HardSwish InstanceNormalization IsInf LayerNormalization LeakyRelu Log LogSoftmax MatMul PRelu "
        "QuantizeLinear Reciprocal RMSNormalization Round Selu Sigmoid Sin Sinh Softmax Softplus Softsign Sqrt Tan Tanh",
    ),
    (
        _NUMBERS,
        "Abs Add ArgMax ArgMin Div Equal Greater GreaterOrEqual IsNaN Less LessOrEqual Max Mean Min Mod Mul Neg Pad Pow Range ReduceL1 "
        "ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare Relu ScatterElements "
        "ScatterND Sign Sub Sum TopK",
    ),
    (
        _ANY,
        "Concat Constant ConstantOfShape Expand Flatten Gather GatherElements GatherND Identity OneHot Reshape Shape Size Slice Split "
        "Squeeze Tile Transpose Trilu Unsqueeze Where",
    ),
    (_ANY | {"uint8"}, "Cast CastLike"),
    (frozenset({"bool"}), "And Not Or Xor"),
    (frozenset({"int8"}), "DequantizeLinear"),
)

TYPES: dict[str, frozenset[str]] = {operator: types for types, operators in _BY_TYPES for operator in operators.split()}
"""Operator to the element types it takes, by numpy's names: of its data, not of its indices, axes and scales."""

CONSTANT_INPUTS = {
    "CumSum": (1,), "Squeeze": (1,), "Unsqueeze": (1,), "QuantizeLinear": (1, 2), "DequantizeLinear": (1, 2), "OneHot": (1,), "Pad": (3,),
    "ReduceL1": (1,), "ReduceL2": (1,), "ReduceLogSum": (1,), "ReduceLogSumExp": (1,), "ReduceMax": (1,), "ReduceMean": (1,),
    "ReduceMin": (1,), "ReduceProd": (1,), "ReduceSum": (1,), "ReduceSumSquare": (1,),
}  # fmt: skip
"""Operator to the places of inputs that must be known when the engine is built."""

SHAPE_INPUTS = {
    "ConstantOfShape": (0,), "Expand": (1,), "Pad": (1,), "Range": (0, 1, 2), "Reshape": (1,), "Slice": (1, 2, 3, 4), "Split": (1,),
    "Tile": (1,), "TopK": (1,),
}  # fmt: skip
"""Operator to the places of inputs that decide its output's shape."""

WEIGHT_AXIS = {"Conv": 0, "ConvTranspose": 1, "Gemm": 1, "MatMul": 1}
"""Operator to the axis of its weights (input 1, of two dimensions for products) along which they may have a scale each: the output's."""
