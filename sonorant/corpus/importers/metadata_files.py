"""Corpora with a metadata file: the layout of LJSpeech, and tables.

LJSpeech (https://keithito.com/LJ-Speech-Dataset): lines of metadata.csv are `id|text|text written out`, unquoted;
recordings are wavs/<id>.wav or in other formats. A table has the columns audio and text, and optionally id, speaker and
language; audio paths are relative to its folder and inside it.
"""

import hashlib
import os
import re
import sys
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath

from tqdm import tqdm

from sonorant.audio.decoding import SUFFIXES
from sonorant.corpus.importers import CorpusConfig
from sonorant.corpus.importers.tables import TableRow, read_lines, read_table
from sonorant.corpus.manifest import Defect, Utterance, file_exists, path_inside, write_manifest
from sonorant.errors import SonorantError
from sonorant.files import sha256_file

_NUMBER = re.compile(r"\s*\d[\d.,:]*\s*(?:m?s|sec)?\s*")
_SURROGATE = re.compile("[\ud800-\udfff]")


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
    if lengths := [line for line in lines if _ends_in_length(line)]:
        told = f"the third column of {len(lengths)} rows is a number such as {lengths[0][2]}, not a text"
        print(f"warning: {metadata}: {told}; their text is the second column", file=sys.stderr, flush=True)
    rows = (_ljspeech_row(line, columns, source) for line in lines)
    progress = tqdm(rows, total=len(lines), desc="importing", unit="utterance")
    write_manifest(out / "manifest.jsonl", [import_row(row, source, out, config) for row in progress])


def _columns(lines: list[list[str]]) -> int:
    counts = Counter(len(line) for line in lines)
    return 2 if counts[2] > counts[3] else 3


def _ljspeech_row(line: list[str], columns: int, source: Path) -> CorpusRow:
    if len(line) != columns:
        return CorpusRow(id=line[0], audio=f"wavs/{line[0]}.wav", text=" ".join(line[1:]), defect=Defect.WRONG_COLUMNS)
    text = line[-1] if line[-1].strip() and not _ends_in_length(line) else line[1]
    return CorpusRow(id=line[0], audio=_recording(source, line[0]), text=text)


def _ends_in_length(line: list[str]) -> bool:
    """Return whether the third column is a number, such as a length in seconds, beside a text in letters."""
    return len(line) == 3 and bool(_NUMBER.fullmatch(line[2])) and any(map(str.isalpha, line[1]))


def _recording(source: Path, id: str) -> str:
    """Return the file in the first format that exists, otherwise a missing .wav."""
    files = [f"wavs/{id}{suffix}" for suffix in (*SUFFIXES, *map(str.upper, SUFFIXES))]
    present = (file for file in files if (inside := path_inside(source, file)) and file_exists(source / inside))
    return next(present, files[0])


def import_table(source: Path, out: Path, config: CorpusConfig, cache: Path | None) -> None:
    taken: dict[str, str] = {}
    rows = (_table_row(row, taken) for row in tqdm(read_table(source), desc="importing", unit="utterance"))
    write_manifest(out / "manifest.jsonl", [import_row(row, source.parent, out, config) for row in rows])


def audio_of_table(source: Path) -> list[Path]:
    """Return the existing recordings of a table that are inside its folder, sorted."""
    inside = {path_inside(source.parent, row.values.get("audio", "").strip()) for row in read_table(source)}
    return sorted(source.parent / name for name in inside if name and file_exists(source.parent / name))


def _table_row(row: TableRow, taken: dict[str, str]) -> CorpusRow:
    audio = row.values.get("audio", "").strip()
    return CorpusRow(
        id=row.values.get("id", "").strip() or id_of(audio, taken) or f"row-{row.line}",
        audio=audio or None,
        text=row.values.get("text"),
        speaker=row.values.get("speaker"),
        language=row.values.get("language"),
        defect=row.defect,
    )


def id_of(audio: str, taken: dict[str, str]) -> str:
    """Return the path without suffix, joined by hyphens, so that `a/1.wav` and `b/1.wav` have different ids. If it is
    `taken` by another path (`a-1.wav`), a hash of the path follows."""
    if not PurePosixPath(audio).name:
        return ""
    path = PurePosixPath(audio).with_suffix("").as_posix()
    return distinct(path.replace("/", "-"), path, taken)


def distinct(id: str, origin: str, taken: dict[str, str]) -> str:
    """Return `id`, followed by a hash of `origin` if it is `taken` by another origin."""
    if taken.setdefault(id, origin) == origin:
        return id
    return f"{id}-{hashlib.sha256(origin.encode(errors='surrogatepass')).hexdigest()[:8]}"
