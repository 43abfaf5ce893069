"""The manifest: one line per utterance of a corpus, as imported or as prepared."""

import dataclasses
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from sonorant.audio.conditioning import Conditioning
from sonorant.audio.measures import Measures
from sonorant.errors import SonorantError
from sonorant.files import DoubtError, built, iterate_jsonl, parse_checked, write_jsonl

SPLITS = ("train", "validation", "test")


class Defect(StrEnum):
    """Reason to reject an utterance."""

    # by an importer
    WRONG_COLUMNS = "wrong column count"
    UNREADABLE_ROW = "row is not JSON"
    NOT_UTF8 = "text not UTF-8"
    LEAVES_FOLDER = "path leaves the corpus folder"
    # by `prepare`
    DUPLICATE_ID = "duplicate id"
    EMPTY_TEXT = "empty text"
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
    """One recording and its text; None = not known yet."""

    id: str
    audio: str | None
    """Audio file with forward slashes, absolute or relative to the corpus folder, and possibly outside it
    (`../../corpora/mine/a.wav`); it then has `sha256`. None if the row names no usable file."""
    start: float | None = None
    """Start in its file in seconds; None = start of the file."""
    end: float | None = None
    """End in its file in seconds; None = end of the file."""
    text: str
    """Text as imported, whitespace collapsed."""
    speaker: str
    language: str
    """Such as en-us."""
    spoken: str | None = None
    """Text with numbers, dates and abbreviations written out."""
    seconds: float | None = None
    """Duration after conditioning."""
    sample_rate: int | None = None
    """Hz of the recording."""
    channels: str | None = None
    """A value of `sonorant.audio.channels.Channels`."""
    channel_correlation: float | None = None
    """Of the two least alike live channels; None for fewer than two."""
    sha256: str | None = None
    """Hex SHA-256 of the audio file."""
    conditioning: Conditioning | None = None
    """Changes to the recording before it is used."""
    measures: Measures | None = None
    """Measurements before conditioning."""
    clip: str | None = None
    """`sonorant.corpus.decisions.clip_name` before any edit."""
    confidence: float | None = None
    """Confidence of the recogniser that produced the text, 0 to 1; None for a given text."""
    split: str | None = None
    """train, validation or test."""
    defect: str | None = None
    """A `Defect` found by the importer."""


def write_manifest(path: Path, utterances: Iterable[Utterance]) -> None:
    """Write one JSON object per utterance, atomically, without fields that are None."""
    rows = (dataclasses.asdict(utterance) for utterance in utterances)
    write_jsonl(path, ({key: value for key, value in row.items() if value is not None} for row in rows))


def read_manifest(path: Path) -> list[Utterance]:
    """Utterances in file order. Raises SonorantError naming file, row and field."""
    return [_utterance(row, path, number) for number, row in enumerate(iterate_jsonl(path), 1)]


def path_inside(folder: Path, file: str) -> Path | None:
    """`file` relative to `folder`; None if it is outside by `..`, an absolute path or a symbolic link."""
    try:
        return (folder / file).resolve().relative_to(folder.resolve())
    except (ValueError, OSError, RuntimeError):  # outside, a NUL byte, a name too long, or a loop of links
        return None


def may_be_read(corpus: Path, utterance: Utterance) -> bool:
    """Whether its file is in the folder `corpus`, or was found by an importer in the user's corpus."""
    return utterance.sha256 is not None or path_inside(corpus, utterance.audio or "") is not None


def corpus_files(corpus: Path, utterances: Sequence[Utterance]) -> tuple[Path, ...]:
    """Existing files that identify a corpus on another machine: the manifest and the first recording."""
    audio = next((corpus / str(row.audio) for row in utterances if may_be_read(corpus, row)), None)
    return tuple(file for file in (corpus / "manifest.jsonl", audio) if file is not None and file_exists(file))


def file_exists(path: Path) -> bool:
    """False also for an impossible name."""
    try:
        return path.is_file()
    except OSError:
        return False


_REAL = (int, float)
_NUMBERS = {
    "start": _REAL,
    "end": _REAL,
    "seconds": _REAL,
    "sample_rate": (int,),
    "channel_correlation": _REAL,
    "confidence": _REAL,
}
_NESTED: dict[str, type] = {"conditioning": Conditioning, "measures": Measures}
_FIELDS = {
    field.name: (dict,) if field.name in _NESTED else _NUMBERS.get(field.name, (str,))
    for field in dataclasses.fields(Utterance)
}
_REQUIRED = ("id", "text", "speaker", "language")


def _utterance(row: Any, path: Path, number: int) -> Utterance:
    where = f"{path}: row {number}"
    if not isinstance(row, dict):
        raise SonorantError(f"{where}: not a JSON object; run the stage corpus again")
    for field in _REQUIRED:
        if field not in row:
            raise SonorantError(f"{where}: field '{field}' is missing; run the stage corpus again")
    for field, value in row.items():
        if field not in _FIELDS:
            raise SonorantError(f"{where}: unknown field '{field}'; allowed: {', '.join(_FIELDS)}")
        if not isinstance(value, _FIELDS[field]) or isinstance(value, bool):
            kinds = " or ".join(kind.__name__ for kind in _FIELDS[field])
            raise SonorantError(f"{where}: field '{field}' must be {kinds}, not {value!r}")
    if row.get("defect") not in (None, *Defect):
        raise SonorantError(f"{where}: unknown defect '{row['defect']}'; allowed: {', '.join(Defect)}")
    nested = {field: _nested(row[field], kind, where, field) for field, kind in _NESTED.items() if field in row}
    return Utterance(**{"audio": None, **row, **nested})


def _nested(value: Any, kind: type, where: str, field: str) -> Any:
    with suppress(DoubtError):
        return built(kind, value)  # takes half the time of `parse_checked`
    return parse_checked(value, kind, Path(where), key=field, hint="run the stage prepare again")
