"""Rows of a corpus file, read so that a bad one spoils nothing but itself. Knows nothing of any corpus's columns.

Bytes that are not UTF-8 survive reading as lone surrogates (PEP 383), so that the row they stand in can be told from the others.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from sonorant.data.corpora import CorpusConfig
from sonorant.data.manifest import Defect, Utterance, file_exists, path_inside
from sonorant.errors import SonorantError

_SURROGATE = re.compile("[\ud800-\udfff]")


def read_text(path: Path) -> str:
    """Return a corpus file's text without a byte order mark. Raises SonorantError naming the file if it cannot be opened."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise SonorantError(f"{path}: no such file; point corpus.path in params.yaml at the corpus") from None
    except OSError as error:
        raise SonorantError(
            f"{path}: cannot be read ({error.strerror}); corpus.kind or corpus.path in params.yaml may be wrong"
        ) from None
    return data.decode("utf-8-sig", errors="surrogateescape")


def read_lines(path: Path) -> list[str]:
    """Return a corpus file's lines. Only line feeds end a line: other separators of Unicode may stand in a text."""
    return [line.rstrip("\r") for line in read_text(path).split("\n")]


@dataclass(frozen=True, kw_only=True)
class Row:
    """One utterance as its corpus wrote it; None is a field the row does not have."""

    id: str
    audio: str | None
    text: str | None
    speaker: str | None = None
    language: str | None = None
    defect: Defect | None = None


def import_row(row: Row, source: Path, out: Path, config: CorpusConfig) -> Utterance:
    """Copy the row's recording from the folder `source` below `out`/audio and return its utterance, with its defect if any.

    A file outside `source` is never copied, a missing one is left for `prepare` to report. Recordings are copied, not linked: a
    DVC cache of hard links (`cache.type hardlink`) makes its files read-only, which would then be the user's own recordings.
    """
    text, audio, defect = row.text or "", row.audio or "", row.defect
    if defect is None and any(_SURROGATE.search(value) for value in (row.id, text, audio, row.speaker or "", row.language or "")):
        defect = Defect.NOT_UTF8
    if defect is None and not audio:
        defect = Defect.MISSING_AUDIO
    placed: str | None = clean(audio) or None
    if defect is None:
        inside = path_inside(source, audio)
        if inside is None:
            defect = Defect.LEAVES_FOLDER
        else:
            placed, defect = _copy(source, inside, out)
    return Utterance(
        id=clean(row.id),
        audio=placed,
        text=clean(text),
        speaker=clean(row.speaker or "") or config.default_speaker,
        language=clean(row.language or "") or config.language,
        defect=defect,
    )


def clean(text: str) -> str:
    """Return text with its whitespace collapsed and undecodable bytes replaced by U+FFFD."""
    return " ".join(_SURROGATE.sub("�", text).split())


def _copy(source: Path, inside: Path, out: Path) -> tuple[str, Defect | None]:
    name = f"audio/{inside.as_posix()}"
    target = out / name
    try:
        if file_exists(source / inside) and not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source / inside, target)
    except PermissionError:
        return name, Defect.UNREADABLE
    except OSError as error:
        raise SonorantError(f"{source / inside}: cannot be copied to {target} ({error.strerror})") from None
    return name, None
