"""Export two trained models as one voice bundle in several precisions."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import onnx

from sonorant.audio.arrays import Integers, Ints
from sonorant.errors import SonorantError
from sonorant.export.distances import Arrays, batches
from sonorant.export.half import export_halves
from sonorant.export.onnx_graph import ExportConfig
from sonorant.files import read_json
from sonorant.plugins import all_families, load_family
from sonorant.speech.bundle import (
    LEXICON,
    SCHEMA_VERSION,
    AudioSettings,
    BundledFile,
    FrontendSettings,
    Graph,
    Lengths,
    ReceptiveField,
    Tensor,
    VoiceDescription,
    write_bundle,
)
from sonorant.speech.decoding import DecodingConfig, DecodingDescription
from sonorant.text.user_lexicon import Lexicon


@dataclass(frozen=True)
class Sources:
    predictor: Path
    """Folder of the predictor, which determines the family."""
    waveform: Path
    quantized: tuple[Path, Path] | None = None
    """Folders of both fake-quantised models, for int8."""
    utterances: Sequence[Integers] = ()
    """Token ids (N, 3) for measuring value ranges; if empty, fp16 and bf16 are not written."""
    decoding: DecodingConfig | None = None
    """Default settings of the voice, for autoregressive families."""


class Models(Protocol):
    """The two models of a voice. Each family implements their export."""

    @property
    def described(self) -> dict[str, Any]:
        """The predictor's parsed `model.json`."""

    @property
    def waveform_described(self) -> dict[str, Any]: ...

    @property
    def receptive_field(self) -> ReceptiveField: ...

    def check_pair(self, waveform: Path) -> None:
        """Raise SonorantError, naming the folder `waveform`, if the two models do not match."""

    def write_graphs(self, files: dict[str, Path], config: ExportConfig) -> None:
        """Write the voice's graphs to `files` by name. Raises SonorantError if one is not valid ONNX."""

    def write_prompt(self, path: Path, config: ExportConfig) -> bool:
        """Write the graph that encodes a reference recording; return False if there is none."""

    def graph_inputs(self, files: dict[str, Path], batches: Sequence[Arrays]) -> dict[str, list[Arrays]]:
        """Return the inputs of each graph for batches of tokens; empty if there are no 16-bit variants."""

    def decoding(self, defaults: DecodingConfig | None) -> DecodingDescription | None:
        """Return the description of decoding. Raises SonorantError if required defaults are missing."""


def export_voice(
    predictor: Path,
    waveform: Path,
    out: Path,
    lengths: Lengths,
    config: ExportConfig,
    decoding: DecodingConfig | None = None,
) -> None:
    """Write a voice bundle as `export_variants` does, but with float32 graphs only."""
    export_variants(Sources(predictor, waveform, decoding=decoding), out, lengths, config)


def export_variants(sources: Sources, out: Path, lengths: Lengths, config: ExportConfig) -> dict[str, Any]:
    """Write the voice bundle `out` with all variants, atomically; the same sources give the same bytes.

    `lengths` are those of the training corpus. Returns the report of `export_halves`. Raises SonorantError if a folder
    contains no suitable model or the two models do not match.
    """
    family = family_of(sources.predictor)
    models = load_family(family).models(sources.predictor, sources.waveform)
    _check_same_mel(models, sources.waveform)
    models.check_pair(sources.waveform)
    decoding = models.decoding(sources.decoding)
    quantized = _load_quantized(family, sources.quantized) if sources.quantized is not None else None
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        files = {"fp32": _write_graphs(family, models, folder, "fp32", config)}
        halves: dict[str, Any] = {}
        speakers = len(models.described["speakers"])
        given = list(batches(sources.utterances, speakers)) if sources.utterances else []
        if given and (inputs := models.graph_inputs(files["fp32"], given)):
            written, halves = export_halves(files["fp32"], inputs, folder)
            files |= written
        if quantized is not None:  # its layers write QuantizeLinear and DequantizeLinear
            files["int8"] = _write_graphs(family, quantized, folder, "int8", config)
        reference = folder / "reference.fp32.onnx"
        prompted = models.write_prompt(reference, config)
        described = dict(models.described["frontend"])
        lexicon = _write_lexicon(described.pop("lexicon", None), described["language"], folder)
        description = VoiceDescription(
            schema_version=SCHEMA_VERSION,
            family=family,
            audio=AudioSettings(**models.described["audio"]),
            frontend=FrontendSettings(**described, lexicon=BundledFile.of(lexicon) if lexicon else None),
            symbols=tuple(models.described["symbols"]),
            speakers=tuple(models.described["speakers"]),
            graphs={
                name: _describe({variant: graphs[name] for variant, graphs in files.items()}) for name in files["fp32"]
            },
            receptive_field=models.receptive_field,
            lengths=lengths,
            decoding=decoding,
            reference=BundledFile.of(reference) if prompted else None,
            choice={},
            provenance={
                "sonorant": metadata.version("sonorant"),
                models.described["kind"]: models.described["provenance"],
                models.waveform_described["kind"]: models.waveform_described["provenance"],
            },
        )
        paths = [file for graphs in files.values() for file in graphs.values()]
        paths += [file for file in (lexicon, reference if prompted else None) if file is not None]
        write_bundle(out, description, paths)
    return halves


def _write_lexicon(entries: dict[str, str] | None, language: str, folder: Path) -> Path | None:
    if entries is None:
        return None
    file = folder / LEXICON
    file.write_text(Lexicon(language, entries).text(), encoding="utf-8")
    return file


def family_of(predictor: Path) -> str:
    """Return the family of a trained predictor. Raises SonorantError if the folder contains none."""
    kind = read_json(predictor / "model.json").get("kind")
    for family in all_families():
        if family.predictor.name == kind:
            return family.name
    speaking = " or ".join(f"'{family.predictor.name}'" for family in all_families())
    raise SonorantError(f"{predictor}: holds a model of kind '{kind}', not {speaking}; give a trained predictor")


def _write_graphs(family: str, models: Models, folder: Path, variant: str, config: ExportConfig) -> dict[str, Path]:
    files = {name: folder / f"{name}.{variant}.onnx" for name in load_family(family).graphs}
    models.write_graphs(files, config)
    return {name: file for name, file in files.items() if file.exists()}


def _load_quantized(family: str, folders: tuple[Path, Path]) -> Models:
    models = load_family(family).models(*folders)
    for found, folder in zip((models.described, models.waveform_described), folders, strict=True):
        if not found.get("quantization"):
            raise SonorantError(
                f"{folder}: no layer of this model is quantised; run the stage quantize or omit --quantized"
            )
    _check_same_mel(models, folders[1])
    return models


def corpus_lengths(tokens: Ints, frames: Ints) -> Lengths:
    """Return quantiles of the token and frame counts (U,) of utterances."""

    def four(counts: Ints) -> tuple[int, int, int, int]:
        shortest, median, p95, longest = np.percentile(counts, [0, 50, 95, 100], method="higher").astype(int).tolist()
        return shortest, median, p95, longest

    return Lengths(tokens=four(tokens), frames=four(frames))


def read_tensors(file: Path) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Return the inputs and outputs of an ONNX file. Raises SonorantError if it is not one."""
    try:
        graph = onnx.load(file, load_external_data=False).graph
    except Exception as error:  # protobuf raises its own classes
        raise SonorantError(
            f"{file}: not an ONNX graph ({' '.join(str(error).split())[:120]}); export it again"
        ) from None
    return tuple(_tensor(value) for value in graph.input), tuple(_tensor(value) for value in graph.output)


def _describe(files: dict[str, Path]) -> Graph:
    inputs, outputs = read_tensors(files["fp32"])
    variants = {variant: BundledFile.of(file) for variant, file in files.items()}
    return Graph(inputs=inputs, outputs=outputs, variants=variants, default_variant="fp32")


def _tensor(value: onnx.ValueInfoProto) -> Tensor:
    tensor = value.type.tensor_type
    return Tensor(
        name=value.name,
        dtype=onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type).name,
        shape=tuple(dimension.dim_param or dimension.dim_value for dimension in tensor.shape.dim),
    )


def _check_same_mel(models: Models, waveform: Path) -> None:
    heard = models.waveform_described["audio"]
    for key, value in models.described["audio"].items():
        if heard.get(key) != value:
            raise SonorantError(
                f"{waveform}: trained with other mel settings than the predictor (audio.{key} is {heard.get(key)}, not "
                f"{value}); train both again"
            )
