"""The voice bundle: a folder with `voice.json` and graphs, which export writes and synthesis reads."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sonorant.errors import SonorantError
from sonorant.files import atomic_folder, parse_checked, read_json, sha256_file, write_json
from sonorant.plugins import load_family
from sonorant.speech.decoding import DecodingDescription
from sonorant.text.user_lexicon import Lexicon, read_lexicon

SCHEMA_VERSION = 1
DESCRIPTION = "voice.json"
LEXICON = "lexicon.txt"


@dataclass(frozen=True, kw_only=True)
class AudioSettings:
    """Audio settings of the graphs: the fields of `sonorant.audio.mel.MelConfig`, defined again so that torch is not
    imported."""

    sample_rate: int
    """Sample rate in Hz."""
    n_fft: int
    """Length in samples of the mel's analysis window."""
    hop: int
    """Samples per mel frame."""
    n_mels: int
    f_min: float
    """Lowest frequency of the mel spectrogram in Hz; `f_max` is the highest."""
    f_max: float


@dataclass(frozen=True, kw_only=True)
class BundledFile:
    file: str
    """File name inside the bundle, without folders."""
    bytes: int
    sha256: str

    @classmethod
    def of(cls, path: Path) -> BundledFile:
        return cls(file=path.name, bytes=path.stat().st_size, sha256=sha256_file(path))


@dataclass(frozen=True, kw_only=True)
class FrontendSettings:
    """The text frontend that the voice was trained with."""

    name: str
    """Name of the frontend, one of `sonorant.text.FRONTENDS`."""
    version: str
    """Version of the frontend and its language data."""
    language: str
    rules: int
    """Revision of the rules for written forms."""
    lexicon: BundledFile | None = None


@dataclass(frozen=True, kw_only=True)
class Tensor:
    name: str
    dtype: str
    """numpy name of the dtype, such as int64."""
    shape: tuple[int | str, ...]
    """Size of each dimension: a number if fixed, a name if variable."""


@dataclass(frozen=True, kw_only=True)
class Graph:
    """A graph and its variants, which share inputs and outputs."""

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    variants: dict[str, BundledFile]
    default_variant: str

    def __post_init__(self) -> None:
        if self.default_variant not in self.variants:
            raise ValueError(
                f"default variant '{self.default_variant}' is not one of the variants {', '.join(self.variants)}"
            )


@dataclass(frozen=True, kw_only=True)
class ReceptiveField:
    """Number of mel or code frames on each side that an output frame depends on. A chunk computed with this context
    equals the same chunk of the full output."""

    decoder: int
    """Receptive field of the decoder; 0 if there is no decoder graph."""
    vocoder: int


@dataclass(frozen=True, kw_only=True)
class Lengths:
    """Lengths of the utterances in the training corpus: shortest, median, 95th percentile, longest."""

    tokens: tuple[int, int, int, int]
    """Lengths in phoneme ids, including start and end."""
    frames: tuple[int, int, int, int]


@dataclass(frozen=True, kw_only=True)
class VoiceDescription:
    schema_version: int
    family: str
    """Family of the voice, one of `sonorant.plugins.family_names`."""
    audio: AudioSettings
    frontend: FrontendSettings
    symbols: tuple[str, ...]
    """Phoneme inventory, in the order of ids."""
    speakers: tuple[str, ...]
    graphs: dict[str, Graph]
    receptive_field: ReceptiveField
    lengths: Lengths
    decoding: DecodingDescription | None
    """Decoding settings; None for families that do not decode step by step."""
    reference: BundledFile | None = None
    """Graph that encodes prompts: samples (batch, frames, samples per code frame) -> codes (batch, frames,
    codebooks)."""
    choice: dict[str, Any]
    """Record written by the `choose` stage; empty before that stage."""
    provenance: dict[str, Any]
    """Version of Sonorant, and the git commit, data hash and number of training steps of each model."""
    sha256: str | None = None
    """Hexadecimal SHA-256 of the other fields, written by `write_bundle`; None is not compared."""


@dataclass(frozen=True)
class Bundle:
    """A bundle on disk. Its files are checked when they are used."""

    folder: Path
    description: VoiceDescription

    @property
    def graphs(self) -> tuple[str, ...]:
        """Names of the graphs, in the order of synthesis."""
        return tuple(name for name in load_family(self.description.family).graphs if name in self.description.graphs)

    def graph_file(self, graph: str, variant: str | None = None) -> Path:
        """Return the path of a graph's file. Raises SonorantError if the file is missing or damaged, or the variant
        does not exist."""
        described = self.description.graphs[graph]
        name = variant or described.default_variant
        if name not in described.variants:
            raise SonorantError(
                f"{self.folder}: no variant '{name}' of graph {graph}; use one of: {', '.join(described.variants)}"
            )
        return self._checked(described.variants[name])

    def reference_file(self) -> Path | None:
        return None if self.description.reference is None else self._checked(self.description.reference)

    def lexicon_file(self) -> Path | None:
        described = self.description.frontend.lexicon
        return None if described is None else self._checked(described)

    def read_lexicon(self) -> Lexicon | None:
        """Read the user's lexicon. Raises SonorantError as `graph_file` does, or if a line is invalid."""
        file = self.lexicon_file()
        return None if file is None else read_lexicon(file, self.description.frontend.language)

    def check_files(self) -> None:
        """Check every file of every variant. Raises SonorantError as `graph_file` does."""
        for name, graph in self.description.graphs.items():
            for variant in graph.variants:
                self.graph_file(name, variant)
        self.reference_file()
        self.lexicon_file()

    def _checked(self, file: BundledFile) -> Path:
        path = self.folder / file.file
        if not path.is_file():
            raise SonorantError(f"{path}: missing from the voice bundle; export or download the bundle again")
        if path.stat().st_size != file.bytes or sha256_file(path) != file.sha256:
            raise SonorantError(
                f"{path}: damaged (its bytes differ from {DESCRIPTION}); export or download the bundle again"
            )
        return path


def read_bundle(folder: Path) -> Bundle:
    """Read `voice.json`. Raises SonorantError naming the file and what is wrong with it."""
    path = folder / DESCRIPTION
    if not path.is_file():
        raise SonorantError(
            f"{folder}: no voice bundle here ({DESCRIPTION} is missing); give the folder that the export stage wrote"
        )
    data = read_json(path)
    version = data.get("schema_version") if isinstance(data, dict) else None
    if version != SCHEMA_VERSION:
        raise SonorantError(
            f"{path}: schema version {version!r}, but this Sonorant reads {SCHEMA_VERSION}; export the voice again"
        )
    description = parse_checked(data, VoiceDescription, path, hint="export the voice again")
    if description.sha256 not in (None, _hash(data)):
        raise SonorantError(f"{path}: its content does not match its sha256; export or download the bundle again")
    _check(description, path)
    return Bundle(folder, description)


def _check(description: VoiceDescription, path: Path) -> None:
    try:
        family = load_family(description.family)
    except SonorantError as error:
        raise SonorantError(f"{path}: family: {error}") from None
    for name in family.graphs:
        if name not in description.graphs and name not in family.optional_graphs:
            raise SonorantError(f"{path}: graphs: '{name}' is missing; export the voice again")
    if (description.decoding is not None) != family.autoregressive:
        raise SonorantError(f"{path}: decoding: does not match family {description.family}; export the voice again")
    if not description.symbols or not description.speakers:
        raise SonorantError(f"{path}: a voice needs at least one symbol and one speaker; export the voice again")
    files = [description.reference, description.frontend.lexicon]
    files += [file for graph in description.graphs.values() for file in graph.variants.values()]
    for file in (file for file in files if file is not None):
        # Bundles are untrusted: a description must not give access to files outside the folder.
        if Path(file.file).name != file.file or file.file in ("", ".", ".."):
            raise SonorantError(f"{path}: '{file.file}' is not a plain file name; do not use this bundle")


def write_bundle(out: Path, description: VoiceDescription, files: Iterable[Path]) -> None:
    """Write a bundle folder atomically, with copies of `files`. Raises SonorantError if the files differ from the
    description."""
    with atomic_folder(out) as folder:
        for file in files:
            shutil.copyfile(file, folder / file.name)
        data = dataclasses.asdict(description)
        write_json(folder / DESCRIPTION, data | {"sha256": _hash(data)})
        read_bundle(folder).check_files()


def content_hash(bundle: Bundle) -> str:
    """Return the hexadecimal SHA-256 of a bundle, after checking all files."""
    bundle.check_files()
    return _hash(dataclasses.asdict(bundle.description))


def _hash(data: dict[str, Any]) -> str:
    rest = {key: value for key, value in data.items() if key != "sha256"}
    canonical = json.dumps(rest, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()
