"""Faults planted in a real bundle with matching hashes, found only by running a graph."""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from sonorant.speech.bundle import Bundle, read_bundle
from tests.evaluation.variants import replace_graph

Change = Callable[[onnx.ModelProto], None]


def plant(bundle: Path, graph: str, variant: str, change: Change, out: Path) -> Bundle:
    shutil.copytree(bundle, out)
    model = onnx.load(out / f"{graph}.{variant}.onnx")
    change(model)
    changed = out.parent / "changed.onnx"
    onnx.save(model, changed)
    replace_graph(out, graph, variant, changed)
    return read_bundle(out)


def first_node(model: onnx.ModelProto, operator: str) -> onnx.NodeProto:
    return next(node for node in model.graph.node if node.op_type == operator)


def change_constant(match: str, change: Callable[[np.ndarray], np.ndarray]) -> Change:
    return _change_last(lambda constant: match in constant.name, change)


def change_matrix(change: Callable[[np.ndarray], np.ndarray]) -> Change:
    floats = (TensorProto.FLOAT, TensorProto.FLOAT16)
    return _change_last(lambda constant: len(constant.dims) == 2 and constant.data_type in floats, change)


def _change_last(wanted: Callable[[TensorProto], bool], change: Callable[[np.ndarray], np.ndarray]) -> Change:
    def apply(model: onnx.ModelProto) -> None:
        constant = next(filter(wanted, reversed(model.graph.initializer)))
        values = change(numpy_helper.to_array(constant).copy())
        constant.CopyFrom(numpy_helper.from_array(values, constant.name))

    return apply


def scale_constant(match: str, factor: float) -> Change:
    return change_constant(match, times(factor))


def times(factor: float) -> Callable[[np.ndarray], np.ndarray]:
    return lambda values: (values * factor).astype(values.dtype)


def with_nan(values: np.ndarray) -> np.ndarray:
    values.flat[0] = np.nan
    return values


def send_through(output: str, operator: str, constant: list[int] | None = None, **attributes: int) -> Change:
    """Append an operator to an output, with an int64 constant as second input."""

    def apply(model: onnx.ModelProto) -> None:
        node = next(node for node in model.graph.node if output in node.output)
        node.output[list(node.output).index(output)] = "right"
        inputs = ["right"]
        if constant is not None:
            model.graph.initializer.append(numpy_helper.from_array(np.array(constant, np.int64), "second"))
            inputs.append("second")
        model.graph.node.append(helper.make_node(operator, inputs, [output], **attributes))

    return apply


def move_zero_point(model: onnx.ModelProto) -> None:
    model.graph.initializer.append(helper.make_tensor("three", TensorProto.INT8, [], [3]))
    first_node(model, "QuantizeLinear").input[2] = "three"


def retype(model: onnx.ModelProto) -> None:
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT16
    cast = next(node for node in model.graph.node if "samples" in node.output)
    cast.attribute[0].CopyFrom(helper.make_attribute("to", TensorProto.FLOAT16))


def unmask(model: onnx.ModelProto) -> None:
    node = first_node(model, "Less")
    model.graph.initializer.append(helper.make_tensor("many", TensorProto.INT64, [], [1 << 30]))
    longer = helper.make_node("Add", [node.input[1], "many"], ["lengths_beyond_the_end"])
    model.graph.node.insert(list(model.graph.node).index(node), longer)
    node.input[1] = "lengths_beyond_the_end"


def one_position_on(model: onnx.ModelProto) -> None:
    for node in model.graph.node:
        node.input[:] = ["later" if name == "position" else name for name in node.input]
    model.graph.initializer.append(helper.make_tensor("one", TensorProto.INT64, [], [1]))
    model.graph.node.insert(0, helper.make_node("Add", ["position", "one"], ["later"]))


def look_ahead(model: onnx.ModelProto) -> None:
    first_node(model, "LessOrEqual").op_type = "GreaterOrEqual"


def see_empty_slots(model: onnx.ModelProto) -> None:
    first_node(model, "And").op_type = "Or"


CONSTANT, NAN = change_matrix(times(1.2)), change_matrix(with_nan)
LONGER = change_constant("prosody.out.bias", lambda bias: bias + np.array([0.3, 0, 0], np.float32))
FILTER = scale_constant("out.weight_scale", 6.0)
"""The weights of an untrained filter are smaller by this factor."""
SIGN = send_through("samples", "Neg")
"""No measure of loudness or spectrum detects it."""
MISFIT = send_through("samples", "Reshape", [7, 11])
"""A shape that fits no utterance: the graph loads, but fails when run."""
REVERSED_HEADS = send_through("key_0", "Gather", [1, 0], axis=1)
OUT, EXPAND = "decoder.out.input_scale", "transformer.layers.0.expand.input_scale"
FAULTS: dict[str, list[tuple[str, str, str, Change, str]]] = {  # graph, variant, fault, and how its line begins
    "parallel": [
        *(
            (graph, "fp32", "constant", CONSTANT, rf"values: graph {graph}, output \w+, length \d+, batch 1: ")
            for graph in ("encoder", "decoder", "vocoder")
        ),
        (
            "encoder",
            "fp32",
            "longer",
            LONGER,
            r"values: graph encoder, output ends, .* ends \d+ frames from that of torch",
        ),
        (
            "vocoder",
            "fp16",
            "nan",
            NAN,
            r"values: graph vocoder, output samples, .*, batch 1: contains NaN or infinity$",
        ),
        ("vocoder", "fp16", "dtype", retype, "interface: graph vocoder: its outputs are {'samples': 'float16'}, must "),
        ("encoder", "int8", "zero-point", move_zero_point, "integers: graph encoder: "),
        ("decoder", "int8", "scale", scale_constant(OUT, 1 / 16), "values: graph decoder, output mel, length "),
        (
            *("vocoder", "int8", "sign", SIGN),
            r"values: graph vocoder, output samples, .* differs from torch's fake-quantised model, "
            r"correlation -\S+, must be at least 0\.9$",
        ),
        ("vocoder", "int8", "misfit", MISFIT, "values: Fail: "),
        # Correct for a single utterance.
        ("vocoder", "int8", "padding", unmask, r"values: graph vocoder, output samples, length \d+, batch 3"),
    ],
    "codec_lm": [
        ("encoder", "fp32", "constant", CONSTANT, "values: graph encoder, output states, length "),
        ("prefill", "fp32", "transposed cache", REVERSED_HEADS, "values: graph prefill, output key_0, length "),
        ("prefill", "fp32", "mask that looks ahead", look_ahead, "values: graph prefill, output "),
        ("step", "fp32", "off-by-one position", one_position_on, "values: graph step, output "),
        ("step", "fp32", "empty slots", see_empty_slots, "values: graph step, output "),
        ("step", "int8", "scale", scale_constant(EXPAND, 1 / 16), "values: graph step, output "),
        ("vocoder", "int8", "weight scale", FILTER, "values: graph vocoder, output samples, "),
        ("decoder", "fp32", "constant", CONSTANT, "values: graph decoder, output frames, length "),
    ],
}
