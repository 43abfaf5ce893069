"""Trained models become one voice bundle of several precisions. Does not know how a graph is written."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from sonorant.errors import SonorantError
from sonorant.export.cases import batches
from sonorant.export.halves import export_halves
from sonorant.export.onnx import ExportConfig, export_decoder, export_encoder, export_vocoder
from sonorant.families import FAMILIES
from sonorant.models.acoustic import AcousticModel
from sonorant.models.saved import load_acoustic, load_vocoder
from sonorant.models.vocoder import Vocoder
from sonorant.runtime.bundle import (
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


@dataclass(frozen=True)
class Sources:
    """What a voice is exported from."""

    acoustic: Path
    """Trained folder of the acoustic model."""
    vocoder: Path
    """Trained folder of the vocoder."""
    quantized: tuple[Path, Path] | None = None
    """The two fake-quantised, for the variant int8; None: there is none."""
    utterances: Sequence[NDArray[np.integer]] = ()
    """Token ids (N, 3) each, to measure ranges on; the variants fp16 and bf16 are written where there are some."""


def export_voice(acoustic: Path, vocoder: Path, out: Path, lengths: Lengths, config: ExportConfig) -> None:
    """Write a voice bundle of float32 graphs alone; see `export_variants`."""
    export_variants(Sources(acoustic, vocoder), out, lengths, config)


def export_variants(sources: Sources, out: Path, lengths: Lengths, config: ExportConfig) -> dict[str, Any]:
    """Write the voice bundle `out` with all its variants, atomically; the same sources give the same bytes.

    `lengths`: of the corpus that the models were trained on.

    Returns what was measured for the 16-bit variants: `{variant: {graph: {nodes, kept, largest, loss}}}`, see `sonorant.export.ranges`.

    Raises SonorantError if a folder holds no such model, or the models were trained on different mels.
    """
    acoustic_model, described = load_acoustic(sources.acoustic)
    vocoder_model, vocoder_described = load_vocoder(sources.vocoder)
    _check_same_mel(described["audio"], vocoder_described["audio"], sources.vocoder)
    quantized = _load_quantized(sources.quantized) if sources.quantized is not None else None
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        mels = described["audio"]["n_mels"]
        files = {"fp32": _write_graphs(acoustic_model, vocoder_model, mels, folder, "fp32", config)}
        halves: dict[str, Any] = {}
        if sources.utterances:
            speakers = len(described["speakers"])
            written, halves = export_halves(files["fp32"], list(batches(sources.utterances, speakers)), folder, config)
            files |= written
        if quantized is not None:  # whose layers write QuantizeLinear and DequantizeLinear themselves
            files["int8"] = _write_graphs(*quantized, mels, folder, "int8", config)
        description = VoiceDescription(
            schema_version=SCHEMA_VERSION,
            family="parallel",
            audio=AudioSettings(**described["audio"]),
            frontend=FrontendSettings(**described["frontend"]),
            symbols=tuple(described["symbols"]),
            speakers=tuple(described["speakers"]),
            graphs={
                name: _describe({variant: graphs[name] for variant, graphs in files.items()})
                for name in FAMILIES["parallel"].graphs
            },
            context=Context(decoder=acoustic_model.context, vocoder=vocoder_model.context),
            lengths=lengths,
            decoding=None,
            choice={},
            provenance={
                "sonorant": metadata.version("sonorant"),
                "acoustic": described["provenance"],
                "vocoder": vocoder_described["provenance"],
            },
        )
        write_bundle(out, description, [file for graphs in files.values() for file in graphs.values()])
    return halves


def _write_graphs(
    acoustic: AcousticModel, vocoder: Vocoder, mels: int, folder: Path, variant: str, config: ExportConfig
) -> dict[str, Path]:
    files = {name: folder / f"{name}.{variant}.onnx" for name in FAMILIES["parallel"].graphs}
    export_encoder(acoustic, files["encoder"], config)
    export_decoder(acoustic, files["decoder"], config)
    export_vocoder(vocoder, mels, files["vocoder"], config)
    return files


def _load_quantized(folders: tuple[Path, Path]) -> tuple[AcousticModel, Vocoder]:
    (acoustic, described), (vocoder, vocoder_described) = load_acoustic(folders[0]), load_vocoder(folders[1])
    for found, folder in zip((described, vocoder_described), folders, strict=True):
        if not found.get("quantization"):
            raise SonorantError(f"{folder}: no layer of this model is quantised; run the stage quantize, or leave out --quantized")
    _check_same_mel(described["audio"], vocoder_described["audio"], folders[1])
    return acoustic, vocoder


def corpus_lengths(tokens: NDArray[np.int64], frames: NDArray[np.int64]) -> Lengths:
    """Token and frame counts of a corpus' utterances (U,) -> what the bundle tells of them."""

    def four(counts: NDArray[np.int64]) -> tuple[int, int, int, int]:
        shortest, median, p95, longest = np.percentile(counts, [0, 50, 95, 100], method="higher").astype(int).tolist()
        return shortest, median, p95, longest

    return Lengths(tokens=four(tokens), frames=four(frames))


def read_tensors(file: Path) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Inputs and outputs of an ONNX file as the bundle tells them. Raises SonorantError if it is no such file."""
    try:
        graph = onnx.load(file, load_external_data=False).graph
    except Exception as error:  # protobuf raises classes of its own
        raise SonorantError(f"{file}: not an ONNX graph ({' '.join(str(error).split())[:120]}); export it again") from None
    return tuple(_tensor(value) for value in graph.input), tuple(_tensor(value) for value in graph.output)


def _describe(files: dict[str, Path]) -> Graph:
    """A graph by the files of its variants."""
    inputs, outputs = read_tensors(files["fp32"])
    variants = {variant: GraphFile.of(file, variant) for variant, file in files.items()}
    return Graph(inputs=inputs, outputs=outputs, variants=variants, default_variant="fp32")


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
