"""The trained models as ONNX graphs. Knows nothing of bundles, sample rates or the meaning of a symbol."""

from __future__ import annotations

import contextlib
import io
import logging
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import onnx
import torch
from torch import nn

from sonorant.errors import SonorantError
from sonorant.models.acoustic import AcousticModel
from sonorant.models.vocoder import Vocoder


@dataclass(frozen=True, kw_only=True)
class ExportConfig:
    """How graphs are written."""

    opset: int
    """ONNX operator set of the graphs, 18 to 23; the newer, the fewer engines read it. bf16 needs 22 and has it in any case."""
    headroom: float = 8.0
    """A node whose values on real data, times this, go beyond a 16-bit format stays in float32."""
    max_loss: float = 8.0
    """So does a node that errs by more roundings of the format than this, relative to its result."""

    def __post_init__(self) -> None:
        if self.headroom < 1 or self.max_loss <= 0:
            raise ValueError("headroom must be at least 1, max_loss above 0")
        if not 18 <= self.opset <= 23:
            raise ValueError(f"opset must be 18 to 23, not {self.opset}")


class _Encoding(nn.Module):
    """`AcousticModel.encode_speech` as the forward pass that the exporter takes, its arguments named as the graph's inputs."""

    def __init__(self, model: AcousticModel) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, tokens: torch.Tensor, lengths: torch.Tensor, speaker: torch.Tensor, speed: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        return self.model.encode_speech(tokens, lengths, speaker, speed)


class _Decoding(nn.Module):
    """`AcousticModel.decode` in the same way."""

    def __init__(self, model: AcousticModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, states: torch.Tensor, ends: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        return self.model.decode(states, ends, time)


class _Vocoding(nn.Module):
    """The vocoder in the same way."""

    def __init__(self, model: Vocoder) -> None:
        super().__init__()
        self.model = model

    def forward(self, mel: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        return self.model(mel, lengths)


# In the examples all sizes differ, and none is 0 or 1: the tracer would take equal sizes for one and the same, and 0 or 1 for constants.


def export_encoder(model: AcousticModel, path: Path, config: ExportConfig) -> None:
    """Write the graph tokens, lengths, speaker, speed -> states, ends, of any batch and any number of tokens.

    Names, shapes and dtypes are those of `AcousticModel.encode_speech`. Raises SonorantError if the result is not valid ONNX.
    """
    example = {
        "tokens": torch.ones(2, 7, 3, dtype=torch.int64),
        "lengths": torch.tensor([7, 5]),
        "speaker": torch.zeros(2, dtype=torch.int64),
        "speed": torch.ones(2),
    }
    inputs = {"tokens": {0: "batch", 1: "tokens"}, "lengths": {0: "batch"}, "speaker": {0: "batch"}, "speed": {0: "batch"}}
    _export(_Encoding(model), example, inputs, ("states", "ends"), path, config)


def export_decoder(model: AcousticModel, path: Path, config: ExportConfig) -> None:
    """Write the graph states, ends, time -> mel, of any batch and any numbers of tokens and frames.

    Names, shapes and dtypes are those of `AcousticModel.decode`. Raises SonorantError if the result is not valid ONNX.
    """
    example = {
        "states": torch.zeros(2, 7, model.config.channels),
        "ends": torch.arange(1, 8).repeat(2, 1),
        "time": torch.arange(9),
    }
    inputs = {"states": {0: "batch", 1: "tokens"}, "ends": {0: "batch", 1: "tokens"}, "time": {0: "frames"}}
    _export(_Decoding(model), example, inputs, ("mel",), path, config)


def export_vocoder(model: Vocoder, mels: int, path: Path, config: ExportConfig) -> None:
    """Write the graph mel (batch, mels, frames) float32, lengths (batch,) int64 -> samples (batch, frames * hop) float32, of any batch
    and length.

    Raises SonorantError if the result is not valid ONNX.
    """
    example = {"mel": torch.zeros(2, mels, 9), "lengths": torch.tensor([9, 8])}
    inputs = {"mel": {0: "batch", 2: "frames"}, "lengths": {0: "batch"}}
    _export(_Vocoding(model), example, inputs, ("samples",), path, config)


def _export(
    module: nn.Module,
    example: dict[str, torch.Tensor],
    inputs: dict[str, dict[int, str]],
    outputs: tuple[str, ...],
    path: Path,
    config: ExportConfig,
) -> None:
    """`inputs` name the dimensions that vary; those of the outputs follow from them, never from values: engines need that."""
    dimensions = {name: torch.export.Dim(name) for shape in inputs.values() for name in shape.values()}
    shapes = {name: {axis: dimensions[dimension] for axis, dimension in shape.items()} for name, shape in inputs.items()}
    with _quiet(), torch.no_grad():
        traced = torch.export.export(module.eval(), (), example, dynamic_shapes=shapes, strict=True)
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
    try:
        onnx.checker.check_model(model, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise SonorantError(f"{path.name}: the exported graph is not valid ONNX ({' '.join(str(error).split())[:200]})") from None
    path.write_bytes(model.SerializeToString(deterministic=True))


def _name_dimensions(model: onnx.ModelProto, shapes: dict[str, dict[int, str]]) -> None:
    """Give the varying dimensions their names back; the tracer numbers them (s13)."""
    names = {}
    for value in model.graph.input:
        for axis, name in shapes[value.name].items():
            names[value.type.tensor_type.shape.dim[axis].dim_param] = name
    for value in [*model.graph.input, *model.graph.output, *model.graph.value_info]:
        for dimension in value.type.tensor_type.shape.dim:
            if dimension.dim_param:
                dimension.dim_param = re.sub(r"\b[a-z]\w*\b", lambda match: names.get(match[0], match[0]), dimension.dim_param)


def _strip(model: onnx.ModelProto) -> None:
    """Remove the exporter's notes: they hold source lines and paths of the machine, so two machines would write two files."""
    graph = model.graph
    for part in [model, graph, *model.functions, *graph.node, *graph.value_info, *graph.input, *graph.output, *graph.initializer]:
        del part.metadata_props[:]
        part.doc_string = ""


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep the exporter's progress and advice from the terminal; its exceptions still arrive."""
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
