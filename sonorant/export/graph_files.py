"""Check a variant's files before running them: their bytes, inputs and outputs, and that int8 graphs store int8 and
compute in integers."""

import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, numpy_helper

from sonorant.errors import SonorantError
from sonorant.export.bundling import read_tensors
from sonorant.export.tolerance import Fault
from sonorant.plugins import load_family
from sonorant.speech.bundle import Bundle

Dtypes = dict[str, str]
Interface = dict[str, tuple[Dtypes, Dtypes]]
"""Dtypes of each graph's inputs and outputs, by name."""


def check_files(bundle: Bundle, variant: str) -> dict[str, int]:
    """Return the size of each graph's file in bytes. Raises Fault if one is missing or damaged."""
    try:
        return {graph: bundle.graph_file(graph, variant).stat().st_size for graph in bundle.graphs}
    except SonorantError as error:
        raise Fault(str(error)) from None


def check_interface(bundle: Bundle, variant: str) -> None:
    """Raise Fault for a graph whose inputs or outputs differ from the family's interface or voice.json."""
    for graph, wanted in load_family(bundle.description.family).interface(bundle.description).items():
        described = bundle.description.graphs[graph]
        try:
            found = read_tensors(bundle.graph_file(graph, variant))
        except SonorantError as error:
            raise Fault(str(error)) from None
        for kind, tensors, names, told in zip(
            ("inputs", "outputs"), found, wanted, (described.inputs, described.outputs), strict=True
        ):
            got = {tensor.name: tensor.dtype for tensor in tensors}
            if got != names:
                raise Fault(f"graph {graph}: its {kind} are {got}, must be {names}; export the voice again")
            if tensors != told:
                raise Fault(f"graph {graph}: its {kind} differ from those in voice.json; export the voice again")


LAYERS = ("MatMul", "Gemm", "Conv", "ConvTranspose")
INTEGER_KERNELS = ("QLinearConv", "QLinearMatMul", "MatMulIntegerToFloat", "QGemm", "ConvInteger", "MatMulInteger")
"""ONNX Runtime's integer operators for quantised layers."""
NO_KERNEL = ("ConvTranspose",)
"""Layers that ONNX Runtime computes in float even if quantised; TensorRT does not."""


def check_integers(graph: str, file: Path) -> dict[str, Any]:
    """Return how ONNX Runtime computes the quantised layers: `{layers, kernels: {operator: count}, in_float: [names]}`.

    Raises Fault naming graph and node if weights are not int8, a zero-point is not 0, a scale is not constant and
    positive, or a layer with an integer kernel is computed in float.
    """
    model = onnx.load(file)
    layers = _quantized_layers(graph, model)
    if not layers:
        raise Fault(f"graph {graph}: no layer has weights stored as int8; quantise and export the voice again")
    optimized = _optimized(graph, file)
    left = {node.name for node in optimized.graph.node if node.op_type not in INTEGER_KERNELS}
    in_float = [node.name for node in layers if node.name in left]
    unexpected = [node.name for node in layers if node.name in left and node.op_type not in NO_KERNEL]
    if unexpected:
        raise Fault(
            f"graph {graph}: ONNX Runtime computes the quantised layers {', '.join(unexpected)} in float; quantise and "
            "export the voice again"
        )
    kernels = Counter(node.op_type for node in optimized.graph.node if node.op_type in INTEGER_KERNELS)
    if kernels.total() + len(in_float) < len(layers):
        raise Fault(
            f"graph {graph}: ONNX Runtime has {kernels.total()} integer kernels for {len(layers)} quantised layers; "
            "quantise and export the voice again"
        )
    return {"layers": len(layers), "kernels": dict(sorted(kernels.items())), "in_float": in_float}


def _quantized_layers(graph: str, model: onnx.ModelProto) -> list[onnx.NodeProto]:
    """Return layers whose weights are int8 constants. Checks all scales and zero-points."""
    constants = {constant.name: constant for constant in model.graph.initializer}
    stored = set()
    for node in model.graph.node:
        if node.op_type in ("QuantizeLinear", "DequantizeLinear"):
            for complaint in _complaints(node, constants):
                raise Fault(
                    f"graph {graph}: {node.name} ({node.op_type}): {complaint}; quantise and export the voice again"
                )
        if node.op_type == "DequantizeLinear" and node.input[0] in constants:
            if constants[node.input[0]].data_type != TensorProto.INT8:
                raise Fault(
                    f"graph {graph}: {node.input[0]} is quantised but not stored as int8; quantise and export the "
                    "voice again"
                )
            stored.add(node.output[0])
    return [node for node in model.graph.node if node.op_type in LAYERS and node.input[1] in stored]


def _complaints(node: onnx.NodeProto, constants: dict[str, onnx.TensorProto]) -> Iterator[str]:
    if node.input[1] not in constants:
        yield "its scale is not constant"
    else:
        scale = numpy_helper.to_array(constants[node.input[1]])
        if not (np.isfinite(scale).all() and (scale > 0).all()):
            yield "a scale is not positive"
    if len(node.input) > 2 and node.input[2]:
        zero = constants.get(node.input[2])
        if zero is None or zero.data_type != TensorProto.INT8 or numpy_helper.to_array(zero).any():
            yield "its zero-point is not the int8 constant 0"
    elif node.op_type == "QuantizeLinear":
        yield "without a zero-point it outputs uint8"


def _optimized(graph: str, file: Path) -> onnx.ModelProto:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    with tempfile.TemporaryDirectory() as folder:
        options.optimized_model_filepath = str(Path(folder) / "optimized.onnx")
        try:
            onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # ONNX Runtime raises a different class for each cause
            raise Fault(
                f"graph {graph}: ONNX Runtime cannot load it ({' '.join(str(error).split())[:200]}); export it again"
            ) from None
        return onnx.load(options.optimized_model_filepath)


def opset_of(model: onnx.ModelProto) -> int:
    return next(each.version for each in model.opset_import if each.domain in ("", "ai.onnx"))
