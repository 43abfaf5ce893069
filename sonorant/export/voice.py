"""Two trained models become one voice bundle. Knows nothing of how a graph is written or what a bundle looks like inside."""

from __future__ import annotations

import tempfile
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from sonorant.errors import SonorantError
from sonorant.export.onnx import ExportConfig, export_decoder, export_encoder, export_vocoder
from sonorant.models.saved import load_acoustic, load_vocoder
from sonorant.runtime.bundle import (
    GRAPHS,
    SCHEMA_VERSION,
    AudioSettings,
    Context,
    FrontendSettings,
    Graph,
    GraphFile,
    Lengths,
    Tensor,
    VoiceDescription,
    write_bundle,
)


def export_voice(acoustic: Path, vocoder: Path, out: Path, lengths: Lengths, config: ExportConfig) -> None:
    """Write the voice bundle `out` from the two trained folders, atomically; the same folders give the same bytes.

    `lengths`: of the corpus that they were trained on.

    Raises SonorantError if a folder holds no such model, or the two were trained on different mels.
    """
    acoustic_model, described = load_acoustic(acoustic)
    vocoder_model, vocoder_described = load_vocoder(vocoder)
    _check_same_mel(described["audio"], vocoder_described["audio"], vocoder)
    with tempfile.TemporaryDirectory() as temporary:
        files = {name: Path(temporary) / f"{name}.fp32.onnx" for name in GRAPHS}
        export_encoder(acoustic_model, files["encoder"], config)
        export_decoder(acoustic_model, files["decoder"], config)
        export_vocoder(vocoder_model, described["audio"]["n_mels"], files["vocoder"], config)
        description = VoiceDescription(
            schema_version=SCHEMA_VERSION,
            audio=AudioSettings(**described["audio"]),
            frontend=FrontendSettings(**described["frontend"]),
            symbols=tuple(described["symbols"]),
            speakers=tuple(described["speakers"]),
            graphs={name: describe_graph(file) for name, file in files.items()},
            context=Context(decoder=acoustic_model.context, vocoder=vocoder_model.context),
            lengths=lengths,
            choice={},
            provenance={
                "sonorant": metadata.version("sonorant"),
                "acoustic": described["provenance"],
                "vocoder": vocoder_described["provenance"],
            },
        )
        write_bundle(out, description, files.values())


def corpus_lengths(tokens: NDArray[np.int64], frames: NDArray[np.int64]) -> Lengths:
    """Token and frame counts of a corpus' utterances (U,) -> what the bundle tells of them."""

    def four(counts: NDArray[np.int64]) -> tuple[int, int, int, int]:
        shortest, median, p95, longest = np.percentile(counts, [0, 50, 95, 100], method="higher").astype(int).tolist()
        return shortest, median, p95, longest

    return Lengths(tokens=four(tokens), frames=four(frames))


def describe_graph(file: Path) -> Graph:
    """Inputs and outputs of an ONNX file in single precision, as the bundle tells them."""
    graph = onnx.load(file).graph
    return Graph(
        inputs=tuple(_tensor(value) for value in graph.input),
        outputs=tuple(_tensor(value) for value in graph.output),
        variants={"fp32": GraphFile.of(file, "fp32")},
        default_variant="fp32",
    )


def _tensor(value: onnx.ValueInfoProto) -> Tensor:
    tensor = value.type.tensor_type
    return Tensor(
        name=value.name,
        dtype=onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type).name,
        shape=tuple(dimension.dim_param or dimension.dim_value for dimension in tensor.shape.dim),
    )


def _check_same_mel(acoustic: dict[str, Any], vocoder: dict[str, Any], folder: Path) -> None:
    for key, value in acoustic.items():
        if vocoder.get(key) != value:
            raise SonorantError(
                f"{folder}: trained on another mel than the acoustic model (audio.{key} is {vocoder.get(key)}, not {value}); "
                "train both again"
            )
