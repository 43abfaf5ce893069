from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from sonorant.errors import SonorantError
from sonorant.extras.tensorrt.rules import TYPES, check_graph

FLOAT = TensorProto.FLOAT
Graph = tuple[list[onnx.NodeProto], dict[str, np.ndarray]]


def saved(
    path: Path, nodes: list[onnx.NodeProto], weights: dict[str, np.ndarray], opset: int = 21, kind: int = FLOAT
) -> Path:
    given = helper.make_tensor_value_info("x", kind, ["batch", 4, "frames"])
    made = helper.make_tensor_value_info("y", kind, None)
    constants = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "graph", [given], [made], constants)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), path)
    return path


def quantized_convolution(**changes: object) -> Graph:
    """x -> Q -> DQ -> Conv with int8 weights and one scale per output channel (6) -> y."""
    settings = {"axis": 0, "zero": 0, "weight": np.int8, "scales": 6, "scale": 0.1, "dtype": np.float32} | changes
    weights = {
        "x_scale": np.array(settings["scale"], settings["dtype"]),
        "x_zero": np.array(settings["zero"], np.int8),
        "w": np.ones((6, 4, 3), settings["weight"]),
        "w_scale": np.full(settings["scales"], 0.1, np.float32),
        "w_zero": np.zeros(settings["scales"], settings["weight"]),
    }
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "x_scale", "x_zero"], ["xq"], "quantize"),
        helper.make_node("DequantizeLinear", ["xq", "x_scale", "x_zero"], ["xd"], "dequantize"),
        helper.make_node("DequantizeLinear", ["w", "w_scale", "w_zero"], ["wd"], "weights", axis=settings["axis"]),
        helper.make_node("Conv", ["xd", "wd"], ["y"], "conv"),
    ]
    return nodes, weights


def test_int8_as_it_should_be_is_accepted(tmp_path: Path) -> None:
    assert check_graph(saved(tmp_path / "good.onnx", *quantized_convolution())) == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"zero": 3}, "node 'quantize' (QuantizeLinear): zero point 'x_zero' must be 0"),
        ({"axis": 1, "scales": 4}, "weights of Conv must have scales along axis 0, not axis 1"),
        ({"scales": 5}, "scale 'w_scale' of shape (5,) does not fit axis 0 of weights (6, 4, 3)"),
        ({"weight": np.uint8}, "'w' is uint8"),
        ({"scale": np.inf}, "scale 'x_scale' must be finite and above 0"),
        ({"scale": 0.0}, "scale 'x_scale' must be finite and above 0"),
        ({"scale": [0.1] * 4}, "activations must have one scale, but 'x_scale' has 4"),
        ({"dtype": np.float16}, "scale 'x_scale' is float16, 'x' is float32; they must have the same type"),
    ],
)
def test_a_fault_of_quantization_is_named(changes: dict, message: str, tmp_path: Path) -> None:
    findings = check_graph(saved(tmp_path / "bad.onnx", *quantized_convolution(**changes)))
    assert any(message in finding for finding in findings)


def test_a_scale_that_is_computed_is_named(tmp_path: Path) -> None:
    nodes, weights = quantized_convolution()
    computed = [helper.make_node("ReduceMax", ["x"], ["x_scale"], "scale", keepdims=0), *nodes]
    del weights["x_scale"]
    findings = check_graph(saved(tmp_path / "bad.onnx", computed, weights))
    assert "node 'quantize' (QuantizeLinear): 'x_scale' must be a constant" in findings


def unary(operator: str, **attributes: object) -> Graph:
    return [helper.make_node(operator, ["x"], ["y"], "it", **attributes)], {}


def through_float64() -> Graph:
    there = helper.make_node("Cast", ["x"], ["x64"], "there", to=TensorProto.DOUBLE)
    return [there, helper.make_node("Cast", ["x64"], ["y"], "back", to=TensorProto.FLOAT)], {}


def length_from_a_value() -> Graph:
    """The number of frames is a sum of durations."""
    nodes = [
        helper.make_node("ReduceSum", ["x"], ["sum"], "sum", keepdims=0),
        helper.make_node("Cast", ["sum"], ["count"], "cast", to=TensorProto.INT64),
        helper.make_node("Range", ["zero", "count", "one"], ["y64"], "range"),
        helper.make_node("Cast", ["y64"], ["y"], "back", to=TensorProto.FLOAT),
    ]
    return nodes, {"zero": np.array(0, np.int64), "one": np.array(1, np.int64)}


def length_from_a_shape() -> Graph:
    nodes, weights = length_from_a_value()
    nodes[:2] = [helper.make_node("Size", ["x"], ["count"], "size")]
    return nodes, weights


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda: unary("Det"), FLOAT, "node 'it' (Det): not an operator that TensorRT supports"),
        (lambda: unary("Gelu", domain="com.microsoft"), FLOAT, "that TensorRT supports (domain com.microsoft)"),
        (lambda: unary("Floor"), TensorProto.DOUBLE, "'x' is float64; supported are bfloat16, float16, float32"),
        (lambda: unary("Clip"), TensorProto.INT64, "node 'it' (Clip): 'x' is int64"),
        (through_float64, FLOAT, "node 'there' (Cast): 'x64' is float64"),
        (length_from_a_value, FLOAT, "node 'range' (Range): its shape depends on a value: 'count'"),
    ],
)
def test_a_fault_of_operators_types_and_shapes_is_named(
    make: Callable, kind: int, message: str, tmp_path: Path
) -> None:
    assert any(message in finding for finding in check_graph(saved(tmp_path / "bad.onnx", *make(), kind=kind)))


def test_a_shape_may_follow_from_a_shape(tmp_path: Path) -> None:
    assert check_graph(saved(tmp_path / "good.onnx", *length_from_a_shape())) == []


@pytest.mark.parametrize(("opset", "accepted"), [(8, False), (21, True), (24, True), (25, False)])
def test_only_operator_sets_that_both_versions_read_are_accepted(opset: int, accepted: bool, tmp_path: Path) -> None:
    assert (check_graph(saved(tmp_path / "graph.onnx", *unary("Relu"), opset=opset)) == []) == accepted


def test_every_operator_of_the_table_is_one_of_onnx() -> None:
    known = {schema.name for schema in onnx.defs.get_all_schemas()}
    assert set(TYPES) - known == set()


def test_a_file_that_is_no_graph_is_named(tmp_path: Path) -> None:
    (tmp_path / "no.onnx").write_bytes(b"no graph")
    with pytest.raises(SonorantError, match=r"no\.onnx: not an ONNX graph"):
        check_graph(tmp_path / "no.onnx")
