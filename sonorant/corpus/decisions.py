"""What a person decided about clips: `corpora/<name>.decisions.csv`, written by `sonorant review` or by hand.

A clip is named by its content, so a decision holds whatever the file or the id is called, and for every copy.
"""

import csv
import io
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, get_args

from sonorant.corpus.manifest import Defect, Utterance
from sonorant.errors import SonorantError
from sonorant.files import did_you_mean, write_text

COLUMNS = ("clip", "decision", "text", "start", "end", "note")
REQUIRED = COLUMNS[:2]
ROUNDING = 0.0005
"""Seconds that an edge may lie beyond the clip, because edges are written in milliseconds."""
Verdict = Literal["keep", "drop", "edit"]
_NAME = re.compile(r"[0-9a-f]{12}(@\d+\.\d{3}-(\d+\.\d{3}|end))?")
_NAME_HINT = "the first 12 digits of the audio file's SHA-256, with @<start>-<end> if it is a part of its file"


def clip_name(sha256: str, start: float | None = None, end: float | None = None) -> str:
    """Name a clip by the hex SHA-256 of its audio file, and by its part of the file in seconds if it is not the whole.

    `ab12cd34ef56`, `ab12cd34ef56@1.000-4.250`, or `ab12cd34ef56@1.000-end`; `sha256sum FILE` finds the file.
    """
    whole = start is None and end is None
    return sha256[:12] + ("" if whole else f"@{start or 0.0:.3f}-{'end' if end is None else f'{end:.3f}'}")


@dataclass(frozen=True, kw_only=True)
class Decision:
    """One row of the file. Raises ValueError naming the column if it contradicts itself."""

    clip: str
    decision: Verdict
    text: str = ""
    """edit: the new text; empty = the text stays."""
    start: float | None = None
    """edit: the new start, seconds from the clip's own start; None = it stays."""
    end: float | None = None
    """edit: the new end, seconds from the clip's own start; None = it stays."""
    note: str = ""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.clip):
            raise ValueError(f"column clip: {self.clip!r} is not a clip's name: {_NAME_HINT}")
        if self.decision not in get_args(Verdict):
            hint = did_you_mean(self.decision, list(get_args(Verdict)))
            raise ValueError(f"column decision: unknown decision {self.decision!r}{hint}")
        for name in ("start", "end"):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and value >= 0):
                raise ValueError(f"column {name}: {value} is not a number of seconds from 0 on")
        if self.start is not None and self.end is not None and self.start >= self.end:
            raise ValueError(f"column end: {self.end} is not after the start, {self.start}")
        edits = [name for name in ("text", "start", "end") if getattr(self, name) not in ("", None)]
        if self.decision != "edit" and edits:
            raise ValueError(f"column {edits[0]}: only 'edit' changes a clip, and the decision is {self.decision!r}")
        if self.decision == "edit" and not edits:
            raise ValueError("column decision: this edit changes nothing; give text, start or end, or write keep")
        for name in ("text", "note"):
            if any("\ud800" <= character <= "\udfff" for character in getattr(self, name)):
                raise ValueError(f"column {name}: holds half a character, which no file can hold")


def apply(utterance: Utterance, decision: Decision, seconds: float | None = None) -> Utterance | Defect:
    """Return the utterance with its new text and edges, or the defect for which it is dropped.

    `seconds`: length of the utterance as found; None = not known. Raises ValueError naming the column of an edge
    outside it.
    """
    if decision.decision == "drop":
        return Defect.DROPPED
    if decision.decision == "keep":
        return utterance
    for name in ("start", "end"):
        edge = getattr(decision, name)
        if edge is not None and seconds is not None and edge > seconds + ROUNDING:
            raise ValueError(f"column {name}: {edge:g} s lies after the end of the clip, which has {seconds:.3f} s")
    origin = utterance.start or 0.0
    start = utterance.start if decision.start is None else round(origin + decision.start, 6)
    end = utterance.end if decision.end is None else round(origin + decision.end, 6)
    if end is not None and utterance.end is not None:
        end = min(end, utterance.end)
    return replace(utterance, text=" ".join(decision.text.split()) or utterance.text, start=start, end=end)


def read_decisions(path: Path) -> dict[str, Decision]:
    """Return the decisions by clip, in file order. Raises SonorantError naming file, row and column.

    Row 1 names the columns, in any order; text, start, end and note may be absent.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        header = ",".join(COLUMNS)
        raise SonorantError(
            f"{path}: no such file; sonorant review begins it, or write its first line: {header}"
        ) from None
    except UnicodeDecodeError as error:
        raise SonorantError(f"{path}: not UTF-8 (byte {error.start}); save it as UTF-8") from None
    except OSError as error:
        raise SonorantError(f"{path}: cannot be read ({error.strerror})") from None
    rows = _rows(text, path)
    columns = _columns(next(rows, (1, []))[1], path)
    decisions: dict[str, Decision] = {}
    seen: dict[str, int] = {}
    for number, cells in rows:
        if not any(cell.strip() for cell in cells):
            continue
        try:
            decision = _decision(columns, cells)
            if decision.clip in decisions:
                raise ValueError(f"column clip: row {seen[decision.clip]} has decided on {decision.clip}; keep one")
        except ValueError as error:
            raise SonorantError(f"{path}: row {number}: {error}") from None
        decisions[decision.clip], seen[decision.clip] = decision, number
    return decisions


def write_decision(path: Path, clip: str, decision: Decision | None) -> dict[str, Decision]:
    """Write the decision on a clip, or take it back (None), and return all; what stands in the file otherwise stays.

    The file is read again first, as a person may have changed it, and replaced as a whole. Raises SonorantError if it
    is damaged; nothing is written then.
    """
    decisions = read_decisions(path) if path.exists() else {}
    if decision is None:
        decisions.pop(clip, None)
    else:
        decisions[clip] = decision
    write_decisions(path, decisions)
    return decisions


def write_decisions(path: Path, decisions: dict[str, Decision]) -> None:
    """Write all decisions, atomically. Raises SonorantError if the file cannot be written."""
    buffer = io.StringIO(newline="")
    rows = ([_cell(getattr(row, name)) for name in COLUMNS] for row in decisions.values())
    for cells in ([*COLUMNS], *rows):
        # Python 3.11 leaves a cell unquoted whose only line break is a carriage return.
        careful = "\r" in "".join(cells)
        quoting: Literal[0, 1] = csv.QUOTE_ALL if careful else csv.QUOTE_MINIMAL
        csv.writer(buffer, lineterminator="\n", quoting=quoting).writerow(cells)
    try:
        write_text(path, buffer.getvalue())
    except OSError as error:
        raise SonorantError(f"{path}: cannot be written ({error.strerror})") from None


def _cell(value: str | float | None) -> str:
    return "" if value is None else str(value)


def _rows(text: str, path: Path) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    number = 0
    try:
        for number, cells in enumerate(reader, 1):
            yield number, cells
    except csv.Error as error:
        raise SonorantError(f"{path}: row {number + 1}: not CSV ({error}); a quote within quotes is doubled") from None


def _columns(header: list[str], path: Path) -> list[str]:
    names = [name.strip() for name in header]
    for name in names:
        if name not in COLUMNS:
            hint = "; separate columns by commas" if ";" in name or "\t" in name else did_you_mean(name, list(COLUMNS))
            raise SonorantError(f"{path}: row 1: unknown column {name!r}{hint}")
    for name in REQUIRED:
        if name not in names:
            raise SonorantError(f"{path}: row 1: column {name} is missing; begin with: {','.join(COLUMNS)}")
    if len(set(names)) < len(names):
        raise SonorantError(f"{path}: row 1: a column is named twice: {', '.join(names)}")
    return names


def _decision(columns: list[str], cells: list[str]) -> Decision:
    if len(cells) > len(columns):
        hint = "put a text that holds a comma into double quotes"
        raise ValueError(f"{len(cells)} cells, and there are {len(columns)} columns; {hint}")
    values = dict(zip(columns, cells, strict=False))
    clip, verdict = (values.get(name, "").strip() for name in REQUIRED)
    return Decision(
        clip=clip,
        decision=verdict,  # type: ignore[arg-type]  # checked there
        text=values.get("text", ""),
        start=_seconds("start", values),
        end=_seconds("end", values),
        note=values.get("note", ""),
    )


def _seconds(name: str, values: dict[str, str]) -> float | None:
    cell = values.get(name, "").strip()
    try:
        return float(cell) if cell else None
    except ValueError:
        raise ValueError(f"column {name}: {cell!r} is not a number; write seconds as 1.25") from None
