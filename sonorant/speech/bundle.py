"""The voice bundle, all that training hands to use: a folder of `voice.json` and graphs."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sonorant.errors import SonorantError
from sonorant.files import atomic_folder, parse_checked, read_json, sha256_file, write_json
from sonorant.plugins import load_family
from sonorant.speech.decoding.settings import DecodingDescription

if TYPE_CHECKING:
    from sonorant.text.user_lexicon import Lexicon

SCHEMA_VERSION = 1
DESCRIPTION = "voice.json"
LEXICON = "lexicon.txt"


@dataclass(frozen=True, kw_only=True)
class AudioSettings:
    """The audio that the graphs speak; the fields of `sonorant.audio.mel.MelConfig`, here without its torch."""

    sample_rate: int
    """Hz of the samples."""
    n_fft: int
    """Samples of the analysis window of the mel."""
    hop: int
    """Samples a mel frame."""
    n_mels: int
    """Mel bins."""
    f_min: float
    """Lowest frequency of the mel, Hz."""
    f_max: float
    """Highest frequency of the mel, Hz."""


@dataclass(frozen=True, kw_only=True)
class BundledFile:
    """A file of the bundle that is no graph."""

    file: str
    """Name inside the bundle; no folders."""
    bytes: int
    """Size."""
    sha256: str
    """Hash of the bytes, hexadecimal."""

    @classmethod
    def of(cls, path: Path) -> BundledFile:
        """Describe an existing file."""
        return cls(file=path.name, bytes=path.stat().st_size, sha256=sha256_file(path))


@dataclass(frozen=True, kw_only=True)
class FrontendSettings:
    """The text frontend whose phonemes the acoustic graph learned."""

    name: str
    """Key of `sonorant.text.FRONTENDS`."""
    version: str
    """Version of the frontend and its language data, as it names itself."""
    language: str
    """Language code such as en-us."""
    rules: int = 1
    """Revision of the written forms that the voice learned with; the default is that of bundles of before."""
    lexicon: BundledFile | None = None
    """The user's lexicon that it learned with, or None."""


@dataclass(frozen=True, kw_only=True)
class Tensor:
    """An input or output of a graph."""

    name: str
    """Name in the graph."""
    dtype: str
    """numpy's name of the element type, such as int64."""
    shape: tuple[int | str, ...]
    """A number for a fixed dimension, a name for one that varies."""


@dataclass(frozen=True, kw_only=True)
class GraphFile:
    """One file that computes a graph."""

    file: str
    """Name inside the bundle; no folders."""
    precision: str
    """fp32, int8, ..."""
    bytes: int
    """Size."""
    sha256: str
    """Hash of the bytes, hexadecimal."""

    @classmethod
    def of(cls, path: Path, precision: str) -> GraphFile:
        """Describe an existing file."""
        return cls(file=path.name, precision=precision, bytes=path.stat().st_size, sha256=sha256_file(path))


@dataclass(frozen=True, kw_only=True)
class Graph:
    """A graph and the variants it comes in, which share inputs and outputs."""

    inputs: tuple[Tensor, ...]
    """In the order of the call."""
    outputs: tuple[Tensor, ...]
    """In the order of the results."""
    variants: dict[str, GraphFile]
    """Name (such as fp32) to file."""
    default_variant: str
    """The variant that is used when none is asked for."""

    def __post_init__(self) -> None:
        if self.default_variant not in self.variants:
            raise ValueError(
                f"default variant '{self.default_variant}' is not among its variants {', '.join(self.variants)}"
            )


@dataclass(frozen=True, kw_only=True)
class ReceptiveField:
    """How far a frame sees: a part computed with so many frames on either side equals the same part of the whole."""

    decoder: int
    """Frames of what the graph is given, mel or codes, around those that are wanted; 0 where there is no such graph."""
    vocoder: int
    """The same, mel or codes, around those whose samples are wanted."""


@dataclass(frozen=True, kw_only=True)
class Lengths:
    """Lengths of the training corpus' utterances: shortest, median, 95th percentile, longest."""

    tokens: tuple[int, int, int, int]
    """Phoneme ids of an utterance, start and end included."""
    frames: tuple[int, int, int, int]
    """Mel frames of an utterance."""


@dataclass(frozen=True, kw_only=True)
class VoiceDescription:
    """`voice.json`."""

    schema_version: int
    """Version of this schema; a reader refuses any other."""
    family: str
    """A name of `sonorant.families.family_names`: which graphs there are and how they speak together."""
    audio: AudioSettings
    """Sample rate and mel settings."""
    frontend: FrontendSettings
    """How text becomes phonemes."""
    symbols: tuple[str, ...]
    """Phoneme inventory in the order of the ids."""
    speakers: tuple[str, ...]
    """Speaker names in the order of the ids."""
    graphs: dict[str, Graph]
    """Those of the family."""
    receptive_field: ReceptiveField
    """How far decoder and vocoder see."""
    lengths: Lengths
    """How long the training corpus' utterances are."""
    decoding: DecodingDescription | None
    """How codes are decoded, where the family speaks codes one after the other; else None."""
    reference: GraphFile | None = None
    """The graph of samples (batch, frames, samples a code frame) -> codes (batch, frames, codebooks), for prompts."""
    choice: dict[str, Any]
    """How the default variants were chosen; empty where nobody chose."""
    provenance: dict[str, Any]
    """Where the voice comes from: version of Sonorant, and git commit, data hash and steps of each model."""


@dataclass(frozen=True)
class Bundle:
    """A bundle on disk whose description was read and whose files are checked when they are used."""

    folder: Path
    description: VoiceDescription

    @property
    def graphs(self) -> tuple[str, ...]:
        """Names of its graphs in the order of a synthesis."""
        return tuple(name for name in load_family(self.description.family).graphs if name in self.description.graphs)

    def graph_file(self, graph: str, variant: str | None = None) -> Path:
        """Path of a graph's file, its size and hash checked. Raises SonorantError naming the file if it is missing or
        damaged, or listing the variants if there is none of that name."""
        described = self.description.graphs[graph]
        name = variant or described.default_variant
        if name not in described.variants:
            raise SonorantError(
                f"{self.folder}: no variant '{name}' of graph {graph}; there are: {', '.join(described.variants)}"
            )
        return self._checked(described.variants[name])

    def reference_file(self) -> Path | None:
        """Path of the graph that makes codes of recordings, checked as `graph_file`; None where there is none."""
        return None if self.description.reference is None else self._checked(self.description.reference)

    def lexicon_file(self) -> Path | None:
        """Path of the user's lexicon, checked as `graph_file`; None where there is none."""
        described = self.description.frontend.lexicon
        return None if described is None else self._checked(described)

    def read_lexicon(self) -> Lexicon | None:
        """The user's lexicon. Raises SonorantError as `graph_file`, and naming a line that is none of a lexicon."""
        file = self.lexicon_file()
        if file is None:
            return None
        from sonorant.text.user_lexicon import read_lexicon

        return read_lexicon(file, self.description.frontend.language)

    def check_files(self) -> None:
        """Check every file of every variant. Raises SonorantError as `graph_file`."""
        for name, graph in self.description.graphs.items():
            for variant in graph.variants:
                self.graph_file(name, variant)
        self.reference_file()
        self.lexicon_file()

    def _checked(self, file: GraphFile | BundledFile) -> Path:
        path = self.folder / file.file
        if not path.is_file():
            raise SonorantError(f"{path}: missing from the voice bundle; export or download the bundle again")
        if path.stat().st_size != file.bytes or sha256_file(path) != file.sha256:
            raise SonorantError(
                f"{path}: damaged (not the bytes that {DESCRIPTION} names); export or download the bundle again"
            )
        return path


def read_bundle(folder: Path) -> Bundle:
    """Read `voice.json`; graph files are checked when they are used. Raises SonorantError if the folder is no bundle,
    its schema is of another version, or the description is damaged."""
    path = folder / DESCRIPTION
    if not path.is_file():
        raise SonorantError(
            f"{folder}: no voice bundle here ({DESCRIPTION} is absent); give the folder that the export stage wrote"
        )
    data = read_json(path)
    version = data.get("schema_version") if isinstance(data, dict) else None
    if version != SCHEMA_VERSION:
        raise SonorantError(
            f"{path}: schema version {version!r}, this Sonorant reads {SCHEMA_VERSION}; export the voice again"
        )
    description = parse_checked(data, VoiceDescription, path, hint="export the voice again")
    _check(description, path)
    return Bundle(folder, description)


def _check(description: VoiceDescription, path: Path) -> None:
    try:
        family = load_family(description.family)
    except SonorantError as error:
        raise SonorantError(f"{path}: family: {error}") from None
    for name in family.graphs:
        if name not in description.graphs and name not in family.optional_graphs:
            raise SonorantError(f"{path}: graphs: no '{name}'; export the voice again")
    if (description.decoding is not None) != family.autoregressive:
        raise SonorantError(f"{path}: decoding: does not go with family {description.family}; export the voice again")
    if not description.symbols or not description.speakers:
        raise SonorantError(f"{path}: a voice needs at least one symbol and one speaker; export the voice again")
    files: list[GraphFile | BundledFile | None] = [description.reference, description.frontend.lexicon]
    files += [file for graph in description.graphs.values() for file in graph.variants.values()]
    for file in (file for file in files if file is not None):
        # A bundle may come from anybody: its description must not reach files elsewhere.
        if Path(file.file).name != file.file or file.file in ("", ".", ".."):
            raise SonorantError(f"{path}: '{file.file}' is not a plain file name; do not use this bundle")


def write_bundle(out: Path, description: VoiceDescription, files: Iterable[Path]) -> None:
    """Write a bundle folder atomically, with copies of `files` under their own names. Raises SonorantError if the files
    are not those that the description names."""
    with atomic_folder(out) as folder:
        for file in files:
            shutil.copyfile(file, folder / file.name)
        write_json(folder / DESCRIPTION, dataclasses.asdict(description))
        read_bundle(folder).check_files()


def content_hash(bundle: Bundle) -> str:
    """Hex SHA-256 of a bundle: equal for equal voices wherever they lie. Checks the files, as `check_files`."""
    bundle.check_files()
    # The description holds the hash of every file, so it stands for them.
    canonical = json.dumps(
        dataclasses.asdict(bundle.description), sort_keys=True, ensure_ascii=False, separators=(",", ":")
    )
    return hashlib.sha256(canonical.encode()).hexdigest()
