"""The manifest: one line per utterance of a corpus, as imported or as prepared."""

import dataclasses
import os
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from sonorant.audio.conditioning import Conditioning
from sonorant.audio.measures import Measures
from sonorant.checked import DoubtError, built
from sonorant.files import iterate_jsonl, parse_checked, write_jsonl

SPLITS = ("train", "validation", "test")


class Defect(StrEnum):
    """Reason to reject an utterance."""

    # found by an importer
    WRONG_COLUMNS = "wrong column count"
    UNREADABLE_ROW = "row is not JSON"
    NOT_TEXT = "value is not text"
    NOT_UTF8 = "text not UTF-8"
    LEAVES_FOLDER = "path leaves the corpus folder"
    # found by `prepare`
    DUPLICATE_ID = "duplicate id"
    EMPTY_TEXT = "empty text"
    DECODED_TWICE = "text decoded twice"
    MARKED = "mark of a sound in the text (prepare.marks)"
    MISSING_AUDIO = "missing audio"
    EMPTY_FILE = "empty file"
    TRUNCATED = "truncated audio"
    UNREADABLE = "unreadable audio"
    TOO_LONG = "too long"
    TOO_SHORT = "too short"
    NOT_FINITE = "NaN or infinite samples"
    CHANNELS_DIFFER = "channels differ"
    SILENT = "silent"
    CLIPPED = "clipped"
    DUPLICATE_AUDIO = "duplicate audio"
    UNSPEAKABLE = "characters the frontend cannot speak"
    SPEAKING_RATE = "speaking rate does not match the text"
    NOISY = "too noisy"
    REVERBERANT = "too reverberant"
    NARROW = "bandwidth too narrow"
    HUM = "mains hum"
    RATED_BAD = "rated bad by DNSMOS"
    DROPPED = "dropped by a decision"
    NOT_TRAINED = "speaker without training utterances"
    FEW_SECONDS = "speaker with too few seconds"


@dataclass(frozen=True, kw_only=True, slots=True)
class Utterance:
    """One recording and its text; None means unknown so far."""

    id: str
    audio: str | None = None
    """Audio file with forward slashes, absolute or relative to the corpus folder. A file outside the folder
    (`../../corpora/mine/a.wav`) requires `sha256`. None if the row names no usable file."""
    start: float | None = None
    """Start in seconds; None means the start of the audio file."""
    end: float | None = None
    """End in seconds; None means the end of the audio file."""
    text: str
    """Text as imported, with whitespace collapsed."""
    speaker: str
    language: str
    """Language tag such as en-us."""
    spoken: str | None = None
    """Text with numbers, dates and abbreviations written out."""
    seconds: float | None = None
    """Duration after conditioning."""
    sample_rate: int | None = None
    """Sample rate in Hz of the recording."""
    channels: str | None = None
    """A value of `sonorant.audio.channels.Channels`."""
    channel_correlation: float | None = None
    """Correlation of the two least similar channels, ignoring silent ones; None for fewer than two."""
    sha256: str | None = None
    """Hex SHA-256 of the audio file."""
    conditioning: Conditioning | None = None
    """Changes made to the recording before use."""
    measures: Measures | None = None
    """Measurements before conditioning."""
    clip: str | None = None
    """Name from `sonorant.corpus.decisions.clip_name` before any edit."""
    confidence: float | None = None
    """Confidence, 0 to 1, of the recogniser that transcribed the text, if any."""
    split: str | None = None
    """train, validation or test."""
    defect: Defect | None = None
    """Defect found by the importer."""


def write_manifest(path: Path, utterances: Iterable[Utterance]) -> None:
    """Write one JSON object per utterance, atomically, without fields that are None."""
    rows = (dataclasses.asdict(utterance) for utterance in utterances)
    write_jsonl(path, ({key: value for key, value in row.items() if value is not None} for row in rows))


def read_manifest(path: Path) -> list[Utterance]:
    """Return utterances in file order. Raises SonorantError naming file, row and field."""
    return [_utterance(row, Path(f"{path}: row {number}")) for number, row in enumerate(iterate_jsonl(path), 1)]


def _utterance(row: Any, where: Path) -> Utterance:
    try:
        found: Utterance = built(Utterance, row)  # much faster than `parse_checked`
    except DoubtError:
        found = parse_checked(row, Utterance, where, hint="rerun the stage that wrote it")
    return found


def path_inside(folder: Path, file: str) -> Path | None:
    """Return `file` relative to `folder`, or None if it is outside because of `..`, an absolute path or a symbolic
    link."""
    try:
        return _on_disk(folder, file).resolve().relative_to(folder.resolve())
    except (ValueError, OSError, RuntimeError):  # outside, a NUL byte, a name too long, or a loop of links
        return None


def _on_disk(folder: Path, file: str) -> Path:
    """Return the path with each part composed or decomposed (macOS) as on the disk."""
    if file.isascii():
        return folder / file
    for part in Path(file).parts:
        forms = (part, unicodedata.normalize("NFC", part), unicodedata.normalize("NFD", part))
        folder /= next((form for form in forms if os.path.lexists(folder / form)), part)
    return folder


def may_be_read(corpus: Path, utterance: Utterance) -> bool:
    """Return whether the audio file is in the folder `corpus`, or was found by an importer in the user's corpus."""
    return utterance.sha256 is not None or path_inside(corpus, utterance.audio or "") is not None


def corpus_files(corpus: Path, utterances: Sequence[Utterance]) -> tuple[Path, ...]:
    """Return the existing files that identify a corpus on a different machine: the manifest and the first recording."""
    audio = next((corpus / str(row.audio) for row in utterances if may_be_read(corpus, row)), None)
    return tuple(file for file in (corpus / "manifest.jsonl", audio) if file is not None and file_exists(file))


def file_exists(path: Path) -> bool:
    """Return whether a file exists; False for an invalid name."""
    try:
        return path.is_file()
    except OSError:
        return False
