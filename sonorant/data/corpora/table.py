"""A corpus as one table: a CSV or JSONL file with the columns audio and text. Knows nothing of what makes a recording good.

Optional columns: id, speaker, language; others are ignored. Audio paths are relative to the table's folder and stay inside it.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from tqdm import tqdm

from sonorant.data.corpora import CorpusConfig
from sonorant.data.corpora.rows import Row, import_row, read_lines, read_text
from sonorant.data.manifest import Defect, write_manifest
from sonorant.errors import SonorantError

COLUMNS = ("audio", "text", "id", "speaker", "language")
_DELIMITERS = ",;\t|"


def import_corpus(source: Path, out: Path, config: CorpusConfig) -> None:
    """Fill `out` from a table. Raises SonorantError if the file is no table, lacks a column or has no rows."""
    if not source.is_file():
        raise SonorantError(f"{source}: not a file; kind table needs a .csv, .tsv or .jsonl file with the columns audio and text")
    match source.suffix.lower():
        case ".csv" | ".tsv":
            rows = list(_csv_rows(source))
        case ".jsonl" | ".ndjson":
            rows = list(_jsonl_rows(source))
        case suffix:
            raise SonorantError(f"{source}: a table ends in .csv, .tsv or .jsonl, not '{suffix}'")
    if not rows:
        raise SonorantError(f"{source}: holds no rows; expected one an utterance, with the columns audio and text")
    progress = tqdm(rows, desc="importing", unit="utterance")
    write_manifest(out / "manifest.jsonl", [import_row(row, source.parent, out, config) for row in progress])


def _csv_rows(path: Path) -> Iterator[Row]:
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
            yield _row(values, number, complete="" not in values and None not in values.values())
    except csv.Error as error:
        raise SonorantError(f"{path}: row {number + 1}: not valid CSV ({error}); look for a missing quotation mark") from None


def _names(header: str, delimiter: str) -> set[str]:
    return {name.strip() for name in next(csv.reader([header], delimiter=delimiter), [])}


def _jsonl_rows(path: Path) -> Iterator[Row]:
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            continue
        try:
            values = json.loads(line)
        except json.JSONDecodeError:
            values = None
        if isinstance(values, dict):
            yield _row(values, number, complete=values.get("audio") is not None and values.get("text") is not None)
        else:
            yield Row(id=f"row-{number}", audio=None, text=None, defect=Defect.UNREADABLE_ROW)


def _row(values: dict[str, Any], number: int, *, complete: bool) -> Row:
    named = {column: str(values[column]) for column in COLUMNS if values.get(column) is not None}
    audio = named.get("audio", "").strip()
    return Row(
        id=named.get("id", "").strip() or _id(audio) or f"row-{number}",
        audio=audio or None,
        text=named.get("text"),
        speaker=named.get("speaker"),
        language=named.get("language"),
        defect=None if complete else Defect.WRONG_COLUMNS,
    )


def _id(audio: str) -> str:
    """The path without its suffix, in one word: `a/1.wav` and `b/1.wav` must not share an id."""
    return PurePosixPath(audio).with_suffix("").as_posix().replace("/", "-") if PurePosixPath(audio).name else ""
