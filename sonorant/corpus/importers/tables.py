"""Tables, a row on each line: CSV with one of four delimiters, or JSON lines.

A quote counts only where it closes a field of its own line, because tab-separated tables contain single ones (Common
Voice). Bytes that are not UTF-8 are read as lone surrogates (PEP 383), which mark the row as defective.
"""

import codecs
import csv
import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sonorant.audio.decoding import SUFFIXES
from sonorant.corpus.manifest import Defect
from sonorant.errors import SonorantError

COLUMNS = ("audio", "text", "id", "speaker", "language")
_DELIMITERS = ",;\t|"
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def read_text(path: Path) -> str:
    """Decode UTF-8, or UTF-16 with a byte order mark."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise SonorantError(f"{path}: no such file; set corpus.path in params.yaml to the corpus") from None
    except OSError as error:
        raise SonorantError(f"{path}: cannot be read ({error.strerror}); check corpus.kind and corpus.path") from None
    wide = data.startswith(_UTF16)
    if not wide and data.count(0) * 4 <= len(data):
        return data.decode("utf-8-sig", errors="surrogateescape")
    with suppress(UnicodeDecodeError):
        if wide:
            return data.decode("utf-16", errors="surrogatepass")
    raise SonorantError(
        f"{path}: UTF-16 that is damaged or lacks a byte order mark; convert it to UTF-8: iconv -f UTF-16LE -t UTF-8"
    )


def read_lines(path: Path) -> list[str]:
    """Split a file at line feeds, or at carriage returns if there are none (Excel for Mac). Unicode's other separators
    may occur in a text."""
    text = read_text(path)
    return [line.rstrip("\r") for line in text.split("\n" if "\n" in text else "\r")]


@dataclass(frozen=True)
class TableRow:
    line: int
    """Line number, from 1."""
    values: dict[str, str]
    """Fields by column, without missing ones."""
    defect: Defect | None


def read_table(path: Path) -> list[TableRow]:
    """Return rows of a table, invalid ones with a defect. Raises SonorantError if it is not a table, has no rows, or a
    quote may join lines."""
    if not path.is_file():
        raise SonorantError(f"{path}: not a file; set corpus.path to a .csv, .tsv or .jsonl, columns audio and text")
    match path.suffix.lower():
        case ".csv" | ".tsv":
            rows = list(_csv_rows(path))
        case ".jsonl" | ".ndjson":
            rows = [_json_row(*line) for line in _filled_lines(path)]
        case suffix:
            raise SonorantError(f"{path}: the name of a table must end in .csv, .tsv or .jsonl, not '{suffix}'")
    if not rows:
        raise SonorantError(f"{path}: contains no rows; write one per utterance, with the columns audio and text")
    return rows


def _filled_lines(path: Path) -> list[tuple[int, str]]:
    return [(number, line) for number, line in enumerate(read_lines(path), 1) if line.strip()]


def _csv_rows(path: Path) -> Iterator[TableRow]:
    lines = _filled_lines(path)
    header = lines[0][1] if lines else ""
    splits = ((mark, [name.strip() for name in _cells(header, mark)[0]]) for mark in _DELIMITERS)
    delimiter, names = next((split for split in splits if {"audio", "text"} <= set(split[1])), ("", []))
    if not names:
        raise SonorantError(f"{path}: the first line must name the columns audio and text, not {header.strip()[:80]!r}")
    if twice := [name for name in COLUMNS if names.count(name) > 1]:
        raise SonorantError(f"{path}: the first line names the column {twice[0]} twice; rename one")
    after = [_cells(line, delimiter)[0] for _, line in lines[2:]]
    for (number, line), following in zip(lines[1:], [*after, None], strict=False):
        cells, closed = _cells(line, delimiter)
        complete = len(cells) == len(names)
        follows = following is None or (len(following) == len(names) and any(map(_is_recording, following)))
        if not closed and not (complete and follows):
            raise SonorantError(
                f"{path}: row {number}: a quote does not close in its line; remove it, or write the row on one line"
            )
        values = dict(zip(names, cells, strict=False))
        _, *swallowed = values.get("text", "").split(delimiter)
        complete &= not any(_is_recording(part) and " " not in part.strip() for part in swallowed)
        yield TableRow(number, values, None if complete else Defect.WRONG_COLUMNS)


def _is_recording(cell: str) -> bool:
    return cell.strip('" ').lower().endswith(SUFFIXES)


def _cells(line: str, delimiter: str) -> tuple[list[str], bool]:
    """Return a line's fields, and whether each quote that opens one also closes it; otherwise quotes are text."""
    try:
        return next(csv.reader([line], delimiter=delimiter, strict=True), []), True
    except csv.Error:
        return line.split(delimiter), False


def _json_row(number: int, line: str) -> TableRow:
    values: Any = None
    with suppress(ValueError, RecursionError):
        values = json.loads(line, parse_int=str, parse_float=str)  # a number is text as written
    if not isinstance(values, dict):
        return TableRow(number, {}, Defect.UNREADABLE_ROW)
    given = {column: values[column] for column in COLUMNS if values.get(column) is not None}
    texts = {column: value for column, value in given.items() if isinstance(value, str)}
    if len(texts) < len(given):
        return TableRow(number, texts, Defect.NOT_TEXT)
    return TableRow(number, texts, None if {"audio", "text"} <= texts.keys() else Defect.WRONG_COLUMNS)
