from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from sonorant.export.half import FORMATS, HalfFormat, keep, measure, to_half
from sonorant.families.parallel.synthesis import vocoder_frames
from sonorant.plugins import load_family
from sonorant.speech.runtimes import LoadOptions, load_runtime
from tests.export.conftest import Parity
from tests.export.planted import scale_constant
from tests.support.runtimes import utterance

GRAPHS = load_family("parallel").graphs
FLOATS = {TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16}
FP16 = FORMATS["fp16"]
ZERO = np.zeros(1, np.float32)


def elements(model: onnx.ModelProto) -> dict[str, int]:
    graph = onnx.shape_inference.infer_shapes(model).graph
    found = {value.name: value.type.tensor_type.elem_type for value in (*graph.input, *graph.output, *graph.value_info)}
    return found | {constant.name: constant.data_type for constant in graph.initializer}


@pytest.mark.parametrize("half", FORMATS.values(), ids=FORMATS)
@pytest.mark.parametrize("graph", GRAPHS)
def test_graphs_are_typed_strictly(graph: str, half: HalfFormat, exported: tuple[Path, dict[str, Any]]) -> None:
    bundle, report = exported
    model = onnx.load(bundle / f"{graph}.{half.name}.onnx")
    onnx.checker.check_model(model, full_check=True)
    types = elements(model)
    kept = {node["node"] for node in report[half.name][graph]["kept"]}
    for node in model.graph.node:
        met = {types[name] for name in (*node.input, *node.output) if name and types[name] in FLOATS}
        assert node.op_type == "Cast" or len(met) <= 1, f"{node.name} mixes types"
        if node.op_type in ("MatMul", "Conv"):
            assert met == {TensorProto.FLOAT if node.name in kept else half.element}
    border = {types[value.name] for value in (*model.graph.input, *model.graph.output)}
    assert border <= {TensorProto.FLOAT, TensorProto.INT64}
    assert model.opset_import[0].version >= half.opset


def test_what_counts_frames_stays_in_float32(exported: tuple[Path, dict[str, Any]]) -> None:
    for variant in FORMATS:
        kept = {node["operator"] for node in exported[1][variant]["encoder"]["kept"]}
        assert {"CumSum", "Floor", "Exp", "MatMul"} <= kept
        assert "Conv" not in kept


def test_sums_of_squares_that_overflow_are_kept_in_float32(parallel: Parity) -> None:
    """The vocoder's first layer is ten million times as loud and normalised afterwards."""
    runtime = load_runtime("onnxruntime", parallel.bundle, LoadOptions(threads=1))
    states, ends = runtime.encode(utterance(31)[None], np.array([31]), np.zeros(1, np.int64), ZERO + 1, ZERO, ZERO)
    mel = runtime.decode(states, ends, np.arange(ends[0, -1]))
    (frames,) = vocoder_frames([mel], parallel.bundle.description)
    loud = onnx.load(parallel.folder / "vocoder.fp32.onnx")
    for constant in ("enter.weight", "enter.bias"):
        scale_constant(constant, 1e7)(loud)
    ranges = measure(loud, [{"mel": frames, "lengths": ends[:, -1]}], FP16)
    kept = list(keep(loud, ranges, FP16))
    operators = {node.name: node.op_type for node in loud.graph.node}
    assert {operators[name] for name in kept} >= {"Conv", "LayerNormalization"}


def chain(operators: list[str], weight: np.ndarray) -> onnx.ModelProto:
    """x (1, n) -> MatMul with `weight` -> operators in sequence -> y."""
    names = [*(f"t{number}" for number in range(len(operators))), "y"]
    nodes = [helper.make_node("MatMul", ["x", "w"], names[:1], name="MatMul")]
    for operator, (given, made) in zip(operators, pairwise(names), strict=True):
        nodes.append(helper.make_node(operator, [given], [made], name=operator))
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, None]) for name in ("x", "y")]
    weights = [numpy_helper.from_array(weight.astype(np.float32), "w")]
    graph = helper.make_graph(nodes, "chain", value[:1], value[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


@pytest.mark.parametrize(
    ("operators", "gain", "reason"),
    [
        (["Identity", "Sin"], 1e3, "Sin errs by "),
        (["Exp", "Neg"], 3.0, "values up to "),
        (["Neg", "Abs"], 1.0, None),
        (["Reciprocal", "Abs"], 1e-7, "MatMul errs by "),
    ],
)
def test_keeping_follows_from_what_was_measured(operators: list[str], gain: float, reason: str | None) -> None:
    model = chain(operators, np.eye(16) * gain)
    case = {"x": np.sqrt(np.arange(1, 17, dtype=np.float32))[None]}
    ranges = measure(model, [case], FP16)
    kept = keep(model, ranges, FP16)
    if reason is None:
        assert not kept
        return
    assert any(why.startswith(reason) for why in kept.values())
    assert "MatMul" in kept  # where the harmful chain begins
    exact, halved, naive = (  # in the graph's types, in which ONNX Runtime's CPU does not compute
        ReferenceEvaluator(graph).run(None, case)[0]
        for graph in (model, to_half(model, FP16, kept), to_half(model, FP16, []))
    )
    assert halved.dtype == np.float32
    scale = np.abs(exact).max()
    assert np.abs(halved - exact).max() < 4 * FP16.roundoff * scale
    assert not np.abs(naive - exact).max() < 16 * FP16.roundoff * scale
