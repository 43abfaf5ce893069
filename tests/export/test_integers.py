from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from sonorant.export.graph_files import check_integers
from sonorant.export.tolerance import Fault
from tests.export.planted import first_node, move_zero_point, scale_constant


def float_input(model: onnx.ModelProto) -> None:
    """Feed a product unquantised activations."""
    producers = {output: node for node in model.graph.node for output in node.output}
    products = [node for node in model.graph.node if node.op_type == "MatMul"]
    node = next(node for node in products if producers[node.input[0]].op_type == "DequantizeLinear")
    quantize = producers[producers[node.input[0]].input[0]]
    node.name, node.input[0] = "left_alone", quantize.input[0]


def float_weights(model: onnx.ModelProto) -> None:
    constants = {constant.name: constant for constant in model.graph.initializer}
    dequantize = [node for node in model.graph.node if node.op_type == "DequantizeLinear"]
    for node in [node for node in dequantize if node.input[0] in constants]:
        weight = numpy_helper.to_array(constants[node.input[0]]).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(weight, node.output[0]))
        model.graph.node.remove(node)


def computed_scale(model: onnx.ModelProto) -> None:
    node = first_node(model, "QuantizeLinear")
    model.graph.node.insert(0, helper.make_node("Abs", [node.input[1]], ["computed"]))
    node.input[1] = "computed"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (float_input, "ONNX Runtime computes the quantised layers left_alone in float"),
        (float_weights, "no layer has weights stored as int8"),
        (computed_scale, r"\(QuantizeLinear\): its scale is not constant"),
        (move_zero_point, r"\(QuantizeLinear\): its zero-point is not the int8 constant 0"),
        (scale_constant("weight_scale", -1), r"\(DequantizeLinear\): a scale is not positive"),
    ],
)
def test_what_engines_refuse_or_run_in_float_is_named(
    change: Callable[[onnx.ModelProto], None], message: str, variants: Path, tmp_path: Path
) -> None:
    model = onnx.load(variants / "decoder.int8.onnx")
    change(model)
    onnx.save(model, tmp_path / "decoder.onnx")
    with pytest.raises(Fault, match=f"graph decoder: .*{message}"):
        check_integers("decoder", tmp_path / "decoder.onnx")
