"""Corpora with a metadata file: the layout of LJSpeech, and tables in CSV or JSONL.

LJSpeech (https://keithito.com/LJ-Speech-Dataset): lines of metadata.csv are `id|text|text written out`, unquoted;
recordings are wavs/<id>.wav or in other formats. A table has the columns audio and text, and optionally id, speaker and
language; audio paths are relative to its folder and inside it. Bytes that are not UTF-8 are read as lone surrogates
(PEP 383), which mark the row as defective.
"""

import csv
import io
import json
import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any

from tqdm import tqdm

from sonorant.audio.decoding import SUFFIXES
from sonorant.corpus.importers import CorpusConfig
from sonorant.corpus.manifest import Defect, Utterance, file_exists, path_inside, write_manifest
from sonorant.errors import SonorantError
from sonorant.files import sha256_file

COLUMNS = ("audio", "text", "id", "speaker", "language")
_DELIMITERS = ",;\t|"
_SURROGATE = re.compile("[\ud800-\udfff]")


def read_text(path: Path) -> str:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise SonorantError(f"{path}: no such file; set corpus.path in params.yaml to the corpus") from None
    except OSError as error:
        raise SonorantError(f"{path}: cannot be read ({error.strerror}); check corpus.kind and corpus.path") from None
    return data.decode("utf-8-sig", errors="surrogateescape")


def read_lines(path: Path) -> list[str]:
    """Split a file at line feeds only, because Unicode's other separators may occur in a text."""
    return [line.rstrip("\r") for line in read_text(path).split("\n")]


@dataclass(frozen=True, kw_only=True)
class CorpusRow:
    """An utterance as written in a file; None means a missing field."""

    id: str
    audio: str | None
    text: str | None
    speaker: str | None = None
    language: str | None = None
    defect: Defect | None = None


def import_row(row: CorpusRow, source: Path, out: Path, config: CorpusConfig) -> Utterance:
    """Return the utterance in a row, possibly with a defect. A file outside `source` is never read. The hash reveals
    later edits."""
    text, audio, defect = row.text or "", row.audio or "", row.defect
    sha256: str | None = None
    fields = (row.id, text, audio, row.speaker or "", row.language or "")
    if defect is None and any(_SURROGATE.search(field) for field in fields):
        defect = Defect.NOT_UTF8
    if defect is None and not audio:
        defect = Defect.MISSING_AUDIO
    placed: str | None = clean(audio) or None
    if defect is None:
        inside = path_inside(source, audio)
        if inside is None:
            defect = Defect.LEAVES_FOLDER
        else:
            placed = place_of(source / inside, source, out)
            sha256, defect = _hash(source / inside)
    return Utterance(
        id=clean(row.id),
        audio=placed,
        text=clean(text),
        speaker=clean(row.speaker or "") or config.default_speaker,
        language=clean(row.language or "") or config.language,
        sha256=sha256,
        defect=defect,
    )


def clean(text: str) -> str:
    """Collapse whitespace and replace undecodable bytes with U+FFFD."""
    return " ".join(_SURROGATE.sub("�", text).split())


def place_of(recording: Path, source: Path, out: Path) -> str:
    """Return a recording's path for the manifest in `out`: relative if `source` is, so that the project can be moved;
    otherwise absolute."""
    folder = source if source.is_absolute() else _way(out.absolute(), source.absolute())
    return (folder / recording.relative_to(source)).as_posix()


@lru_cache
def _way(out: Path, source: Path) -> Path:
    return Path(os.path.relpath(source, out.resolve()))


def _hash(file: Path) -> tuple[str | None, Defect | None]:
    try:
        return (sha256_file(file) if file_exists(file) else None), None
    except PermissionError:
        return None, Defect.UNREADABLE
    except OSError as error:
        raise SonorantError(f"{file}: cannot be read ({error.strerror}); check its disk") from None


def import_ljspeech(source: Path, out: Path, config: CorpusConfig, cache: Path | None) -> None:
    """Import an LJSpeech folder, with rows `id|text` or `id|text|text written out`; an empty third column defaults to
    text."""
    metadata = source / "metadata.csv"
    if not metadata.is_file():
        raise SonorantError(
            f"{metadata}: no such file; kind ljspeech requires lines of id|text|normalised text, and a folder wavs"
        )
    lines = [line.split("|") for line in read_lines(metadata) if line.strip()]
    if not lines:
        raise SonorantError(f"{metadata}: empty; expected lines of id|text|normalised text")
    columns = _columns(lines)
    rows = (_ljspeech_row(line, columns, source) for line in lines)
    progress = tqdm(rows, total=len(lines), desc="importing", unit="utterance")
    write_manifest(out / "manifest.jsonl", [import_row(row, source, out, config) for row in progress])


def _columns(lines: list[list[str]]) -> int:
    counts = Counter(len(line) for line in lines)
    return 2 if counts[2] > counts[3] else 3


def _ljspeech_row(line: list[str], columns: int, source: Path) -> CorpusRow:
    if len(line) != columns:
        return CorpusRow(id=line[0], audio=f"wavs/{line[0]}.wav", text=" ".join(line[1:]), defect=Defect.WRONG_COLUMNS)
    return CorpusRow(id=line[0], audio=_recording(source, line[0]), text=line[-1] if line[-1].strip() else line[1])


def _recording(source: Path, id: str) -> str:
    """Return the file in the first format that exists, otherwise a missing .wav."""
    files = [f"wavs/{id}{suffix}" for suffix in (*SUFFIXES, *map(str.upper, SUFFIXES))]
    present = (file for file in files if (inside := path_inside(source, file)) and file_exists(source / inside))
    return next(present, files[0])


def import_table(source: Path, out: Path, config: CorpusConfig, cache: Path | None) -> None:
    progress = tqdm(read_table(source), desc="importing", unit="utterance")
    write_manifest(out / "manifest.jsonl", [import_row(row, source.parent, out, config) for row in progress])


def read_table(source: Path) -> list[CorpusRow]:
    """Return rows of a table, invalid ones with a defect. Raises SonorantError if it is not a table or has no rows."""
    if not source.is_file():
        raise SonorantError(
            f"{source}: not a file; kind table requires .csv, .tsv or .jsonl with columns audio and text"
        )
    match source.suffix.lower():
        case ".csv" | ".tsv":
            rows = list(_csv_rows(source))
        case ".jsonl" | ".ndjson":
            rows = list(_jsonl_rows(source))
        case suffix:
            raise SonorantError(f"{source}: the name of a table must end in .csv, .tsv or .jsonl, not '{suffix}'")
    if not rows:
        raise SonorantError(f"{source}: contains no rows; write one per utterance, with the columns audio and text")
    return rows


def audio_of_table(source: Path) -> list[Path]:
    """Return the existing recordings of a table that are inside its folder, sorted."""
    inside = {path_inside(source.parent, row.audio) for row in read_table(source) if row.audio}
    return sorted(source.parent / name for name in inside if name and file_exists(source.parent / name))


def _csv_rows(path: Path) -> Iterator[CorpusRow]:
    text = read_text(path)
    header = text.split("\n", 1)[0].strip()
    delimiter = next((mark for mark in _DELIMITERS if {"audio", "text"} <= _names(header, mark)), None)
    if delimiter is None:
        raise SonorantError(f"{path}: the first line must name the columns audio and text, not {header[:80]!r}")
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter, restkey="", restval=None)
    reader.fieldnames = [name.strip() for name in reader.fieldnames or []]
    number = 1
    try:
        for number, values in enumerate(reader, 2):
            yield _table_row(values, number, complete="" not in values and None not in values.values())
    except csv.Error as error:
        raise SonorantError(f"{path}: row {number + 1}: not valid CSV ({error}); check for a missing quote") from None


def _names(header: str, delimiter: str) -> set[str]:
    return {name.strip() for name in next(csv.reader([header], delimiter=delimiter), [])}


def _jsonl_rows(path: Path) -> Iterator[CorpusRow]:
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            continue
        try:
            values = json.loads(line)
        except json.JSONDecodeError:
            values = None
        if isinstance(values, dict):
            complete = values.get("audio") is not None and values.get("text") is not None
            yield _table_row(values, number, complete=complete)
        else:
            yield CorpusRow(id=f"row-{number}", audio=None, text=None, defect=Defect.UNREADABLE_ROW)


def _table_row(values: dict[str, Any], number: int, *, complete: bool) -> CorpusRow:
    named = {column: str(values[column]) for column in COLUMNS if values.get(column) is not None}
    audio = named.get("audio", "").strip()
    return CorpusRow(
        id=named.get("id", "").strip() or id_of(audio) or f"row-{number}",
        audio=audio or None,
        text=named.get("text"),
        speaker=named.get("speaker"),
        language=named.get("language"),
        defect=None if complete else Defect.WRONG_COLUMNS,
    )


def id_of(audio: str) -> str:
    """Return the path without suffix, joined by hyphens, so that `a/1.wav` and `b/1.wav` have different ids."""
    return PurePosixPath(audio).with_suffix("").as_posix().replace("/", "-") if PurePosixPath(audio).name else ""
