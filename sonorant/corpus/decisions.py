"""A reviewer's decisions about clips: `corpora/<name>.decisions.csv`, written by `sonorant review` or by hand. Clips
are named by a hash of their file, so a decision applies to every copy, under any file name or id."""

import csv
import io
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

from sonorant.audio.decoding import header
from sonorant.corpus.manifest import Defect, Utterance
from sonorant.errors import SonorantError
from sonorant.files import did_you_mean, write_text

COLUMNS = ("clip", "decision", "text", "start", "end", "note")
REQUIRED = COLUMNS[:2]
ROUNDING = 0.0005
"""Seconds by which an edge may exceed the clip, because edges are rounded to milliseconds."""
Verdict = Literal["keep", "drop", "edit"]
_NAME = re.compile(r"[0-9a-f]{12}(@\d+\.\d{3}-(\d+\.\d{3}|end))?")
_ROW = re.compile(r"[\r\n][0-9a-f]{12}(@[\d.end-]+)?,")
_NAME_HINT = "the first 12 hex digits of the audio file's SHA-256, with @<start>-<end> for a part of the file"


def clip_name(sha256: str, start: float | None = None, end: float | None = None) -> str:
    """Return the name of a clip from its audio file's SHA-256, and its span in seconds if it is part of the file:
    `ab12cd34ef56`, `ab12cd34ef56@1.000-4.250` or `ab12cd34ef56@1.000-end`."""
    whole = start is None and end is None
    return sha256[:12] + ("" if whole else f"@{start or 0.0:.3f}-{'end' if end is None else f'{end:.3f}'}")


@dataclass(frozen=True, kw_only=True)
class Decision:
    """One row of a decisions file. Raises ValueError naming an invalid column."""

    clip: str
    decision: Verdict
    text: str = ""
    """New text; empty means unchanged."""
    start: float | None = None
    """New start in seconds from the clip's start; None means unchanged."""
    end: float | None = None
    """New end in seconds from the clip's start; None means unchanged."""
    note: str = ""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.clip):
            raise ValueError(f"column clip: {self.clip!r} is not a clip name; write {_NAME_HINT}")
        if self.decision not in get_args(Verdict):
            hint = did_you_mean(self.decision, list(get_args(Verdict)))
            raise ValueError(f"column decision: unknown decision {self.decision!r}{hint}")
        for name in ("start", "end"):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and value >= 0):
                raise ValueError(f"column {name}: must be a number of seconds, at least 0, not {value}")
        if self.start is not None and self.end is not None and self.start >= self.end:
            raise ValueError(f"column end: {self.end} is not after the start, {self.start}")
        edits = [name for name in ("text", "start", "end") if getattr(self, name) not in ("", None)]
        if self.decision != "edit" and edits:
            raise ValueError(f"column {edits[0]}: only 'edit' changes a clip, not {self.decision!r}; clear the column")
        if self.decision == "edit" and not edits:
            raise ValueError("column decision: this edit changes nothing; give text, start or end, or write keep")
        for name in ("text", "note"):
            if any("\ud800" <= character <= "\udfff" for character in getattr(self, name)):
                raise ValueError(f"column {name}: contains half a character (an unpaired surrogate); remove it")


def apply(utterance: Utterance, decision: Decision, seconds: float | None = None) -> Utterance | Defect:
    """Return the edited utterance, or the defect of a dropped one. `seconds` is the utterance's length, if known.
    Raises ValueError naming the column if an edge is outside the utterance."""
    if decision.decision == "drop":
        return Defect.DROPPED
    if decision.decision == "keep":
        return utterance
    for name in ("start", "end"):
        edge = getattr(decision, name)
        if edge is not None and seconds is not None and edge > seconds + ROUNDING:
            raise ValueError(f"column {name}: {edge:g} s is after the end of the clip, which lasts {seconds:.3f} s")
    origin = utterance.start or 0.0
    start = utterance.start if decision.start is None else round(origin + decision.start, 6)
    end = utterance.end if decision.end is None else round(origin + decision.end, 6)
    if end is not None and utterance.end is not None:
        end = min(end, utterance.end)
    return replace(utterance, text=" ".join(decision.text.split()) or utterance.text, start=start, end=end)


def read_decisions(path: Path) -> dict[str, Decision]:
    """Return decisions by clip, in file order. Row 1 names the columns in any order; text, start, end and note are
    optional. Raises SonorantError naming file, row and column."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        header = ",".join(COLUMNS)
        raise SonorantError(
            f"{path}: no such file; create it with sonorant review, or begin it with the line {header}"
        ) from None
    except UnicodeDecodeError as error:
        raise SonorantError(f"{path}: not UTF-8 (byte {error.start}); save it as UTF-8") from None
    except OSError as error:
        raise SonorantError(f"{path}: cannot be read ({error.strerror}); check its permissions and disk") from None
    decisions: dict[str, Decision] = {}
    rows: dict[str, int] = {}
    number, columns = 1, list[str]()
    try:
        for number, cells in enumerate(csv.reader(io.StringIO(text, newline=""), strict=True), 1):
            if number == 1:
                columns = _columns(cells)
            elif any(cell.strip() for cell in cells):
                decision = _decision(columns, cells)
                if decision.clip in decisions:
                    raise ValueError(
                        f"column clip: row {rows[decision.clip]} already decides on {decision.clip}; keep one row"
                    )
                decisions[decision.clip], rows[decision.clip] = decision, number
        if not columns:
            _columns([])
    except csv.Error as error:
        raise SonorantError(
            f"{path}: row {number + bool(columns)}: not CSV ({error}); double each quote within quotes"
        ) from None
    except ValueError as error:
        raise SonorantError(f"{path}: row {number}: {error}") from None
    return decisions


def write_decision(path: Path, clip: str, decision: Decision | None) -> dict[str, Decision]:
    """Write a decision, or remove the clip's decision if None; return all decisions. The file is read again first.
    Raises SonorantError, and writes nothing, if the file is damaged."""
    decisions = read_decisions(path) if path.exists() else {}
    if decision is None:
        decisions.pop(clip, None)
    else:
        decisions[clip] = decision
    write_decisions(path, decisions)
    return decisions


def write_decisions(path: Path, decisions: dict[str, Decision]) -> None:
    buffer = io.StringIO(newline="")
    rows = ([getattr(row, name) for name in COLUMNS] for row in decisions.values())
    for row in ([*COLUMNS], *rows):
        cells = ["" if value is None else str(value) for value in row]
        # Python 3.11 does not quote cells whose only line breaks are carriage returns.
        careful = "\r" in "".join(cells)
        quoting: Literal[0, 1] = csv.QUOTE_ALL if careful else csv.QUOTE_MINIMAL
        csv.writer(buffer, lineterminator="\n", quoting=quoting).writerow(cells)
    try:
        write_text(path, buffer.getvalue())
    except OSError as error:
        raise SonorantError(f"{path}: cannot be written ({error.strerror}); check its permissions and disk") from None


def _columns(header: list[str]) -> list[str]:
    names = [name.strip() for name in header]
    for name in names:
        if name not in COLUMNS:
            hint = "; separate columns by commas" if ";" in name or "\t" in name else did_you_mean(name, list(COLUMNS))
            raise ValueError(f"unknown column {name!r}{hint}")
    if missing := [name for name in REQUIRED if name not in names]:
        raise ValueError(f"column {missing[0]} is missing; begin the file with {','.join(COLUMNS)}")
    if len(set(names)) < len(names):
        raise ValueError(f"a column is named twice: {', '.join(names)}; remove one")
    return names


def _decision(columns: list[str], cells: list[str]) -> Decision:
    if len(cells) > len(columns):
        hint = "put text that contains a comma in double quotes"
        raise ValueError(f"{len(cells)} cells, but there are {len(columns)} columns; {hint}")
    if any(_ROW.search(cell) for cell in cells):
        raise ValueError("a cell contains another row; close or remove the quote before it")
    values = dict(zip(columns, cells, strict=False))
    clip, verdict = (values.get(name, "").strip() for name in REQUIRED)
    return Decision(
        clip=clip,
        decision=verdict,  # type: ignore[arg-type]  # checked by Decision
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


@dataclass(frozen=True)
class Decided:
    utterances: list[Utterance]
    """Edited utterances. Dropped ones have the defect DROPPED, and those with a readable file have a `clip`."""
    notes: list[str]
    """Note of the decision on each dropped utterance, otherwise empty."""
    counts: dict[str, Any] | None
    """Number of decisions of each kind, and of unused decisions; None without a decisions file."""
    warning: str | None


def decide(rows: Sequence[Utterance], files: Sequence[str | None], corpus: Path, named: str | None) -> Decided:
    """Apply the decisions in the file `named`, if any. `files` contains each audio file's hex SHA-256, None if
    unreadable. Raises SonorantError naming file, clip and column."""
    decisions = read_decisions(Path(named)) if named else {}
    utterances, notes, counts, used = [], [], Counter[str](), set[str]()
    for row, file in zip(rows, files, strict=True):
        clip = None if file is None else clip_name(file, row.start, row.end)
        decision, utterance, note = decisions.get(clip or ""), replace(row, clip=clip), ""
        if decision is not None:
            used.add(decision.clip)
            counts[decision.decision] += 1
            try:
                applied = apply(utterance, decision, _length_found(corpus, row))
            except ValueError as error:
                raise SonorantError(f"{named}: {decision.clip}: {error}; correct this row") from None
            if isinstance(applied, Utterance):
                utterance = applied
            else:
                utterance, note = replace(utterance, defect=applied), decision.note or f"by {named}"
        utterances.append(utterance)
        notes.append(note)
    if named is None:
        return Decided(utterances, notes, None, None)
    unused = [clip for clip in decisions if clip not in used]
    told = {verdict: counts[verdict] for verdict in get_args(Verdict)} | {"unused": len(unused)}
    warning = (
        f"{named}: {len(unused)} decisions match no clip of this corpus; the first is {unused[0]}" if unused else None
    )
    return Decided(utterances, notes, told, warning)


def _length_found(corpus: Path, utterance: Utterance) -> float | None:
    """Return the utterance's length in seconds, or None if only decoding can determine it."""
    if utterance.end is not None:
        return utterance.end - (utterance.start or 0.0)
    try:
        found = header(corpus / str(utterance.audio))
    except SonorantError:
        return None
    return found.seconds - (utterance.start or 0.0) if found.least else None
