"""Write a traced module as a valid, byte-for-byte reproducible ONNX graph for inputs of any size."""

import contextlib
import io
import logging
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import onnx
import torch
from torch import Tensor, nn

from sonorant.checked import Interval
from sonorant.errors import SonorantError


@dataclass(frozen=True, kw_only=True)
class ExportConfig:
    """Section `export` of params.yaml."""

    opset: Annotated[int, Interval(ge=18, le=23)] = 20
    """ONNX operator set, 18 to 23; fewer engines support newer ones. bf16 uses at least 22."""


class Traced(nn.Module):
    """Wraps a model for the exporter. The arguments of a subclass's `forward` have the names of the graph's inputs."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model


# Sizes of examples must differ and not be 0 or 1: the tracer unifies equal sizes and makes 0 and 1 constants.


def write_graph(
    module: nn.Module,
    example: Mapping[str, Tensor | list[Tensor]],
    inputs: dict[str, dict[int, str]],
    outputs: Sequence[str],
    path: Path,
    config: ExportConfig,
) -> None:
    """Trace `module` in evaluation mode and write its graph to `path`.

    Args:
        example: keyword arguments; a list of tensors gives one input per tensor.
        inputs: the graph's inputs in the order of the arguments, with the names of varying dimensions by axis.
        outputs: names of the outputs.

    Raises SonorantError if the result is not valid ONNX.
    """
    sizes = {name: torch.export.Dim(name) for shape in inputs.values() for name in shape.values()}
    varying = iter([{axis: sizes[name] for axis, name in shape.items()} for shape in inputs.values()])
    shapes = {
        name: [next(varying) for _ in value] if isinstance(value, list) else next(varying)
        for name, value in example.items()
    }
    with _quiet(), torch.no_grad():
        traced = torch.export.export(module.eval(), (), dict(example), dynamic_shapes=shapes, strict=True)
        program = torch.onnx.export(
            traced,
            input_names=list(inputs),
            output_names=list(outputs),
            opset_version=config.opset,
            dynamo=True,
            optimize=True,
            verbose=False,
        )
    assert program is not None
    model = program.model_proto
    _name_dimensions(model, inputs)
    _strip(model)
    _own_weights(model.graph)
    try:
        onnx.checker.check_model(model, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise SonorantError(
            f"{path.name}: not valid ONNX ({' '.join(str(error).split())[:200]}); try another export.opset"
        ) from None
    path.write_bytes(model.SerializeToString(deterministic=True))


def _name_dimensions(model: onnx.ModelProto, shapes: dict[str, dict[int, str]]) -> None:
    """Restore the names of varying dimensions; the tracer numbers them (s13)."""
    names = {}
    for value in model.graph.input:
        for axis, name in shapes[value.name].items():
            names[value.type.tensor_type.shape.dim[axis].dim_param] = name
    for value in [*model.graph.input, *model.graph.output, *model.graph.value_info]:
        for dimension in value.type.tensor_type.shape.dim:
            if dimension.dim_param:
                dimension.dim_param = re.sub(
                    r"\b[a-z]\w*\b", lambda match: names.get(match[0], match[0]), dimension.dim_param
                )


def _strip(model: onnx.ModelProto) -> None:
    """Remove the exporter's metadata, which contains paths and source lines of this machine."""
    graph = model.graph
    for part in [
        model,
        graph,
        *model.functions,
        *graph.node,
        *graph.value_info,
        *graph.input,
        *graph.output,
        *graph.initializer,
    ]:
        del part.metadata_props[:]
        part.doc_string = ""


def _own_weights(graph: onnx.GraphProto) -> None:
    """Copy dequantised weights and zero points that nodes share, because ONNX Runtime fails on shared ones when it
    makes weights unsigned (`sonorant.speech.onnx_sessions.SUMS_THAT_FIT`)."""
    constants = {constant.name: constant for constant in graph.initializer}
    weights = {
        node.output[0]: node for node in graph.node if node.op_type == "DequantizeLinear" and node.input[0] in constants
    }
    taken: set[str] = set()

    def own(name: str) -> str:
        """Return the constant's name for its first user, a new copy's name for others."""
        if name not in taken:
            taken.add(name)
            return name
        copy = graph.initializer.add()
        copy.CopyFrom(constants[name])
        copy.name = f"{name}.{len(graph.initializer)}"
        return str(copy.name)

    ordered = onnx.GraphProto()
    for node in graph.node:
        if node.output[0] in weights:
            continue  # inserted before each user
        for place, value in enumerate(node.input):
            if value in weights:
                weight = onnx.NodeProto()
                weight.CopyFrom(weights[value])
                for constant in (0, 2):  # weight and zero point, if any
                    if constant < len(weight.input):
                        weight.input[constant] = own(weight.input[constant])
                if value in taken:
                    weight.name = weight.output[0] = f"{value}.{len(ordered.node)}"
                taken.add(value)
                node.input[place] = weight.output[0]
                ordered.node.append(weight)
        ordered.node.append(node)
    graph.ClearField("node")
    graph.node.extend(ordered.node)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:

    loggers = [logging.getLogger(name) for name in ("torch.onnx", "torch.export", "onnxscript", "onnx_ir")]
    levels = [logger.level for logger in loggers]
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)
