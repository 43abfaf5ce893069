"""Results of the audit: `audit.jsonl`, read by the page, the review and the report."""

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from sonorant.files import parse_checked, read_jsonl, write_jsonl


class Fault(StrEnum):
    """Possible mismatch between text and audio."""

    OTHER_TEXT = "other text"
    MISSING_AT_START = "words of the text are not spoken at the start"
    MISSING_AT_END = "words of the text are not spoken at the end"
    MISSING_INSIDE = "words of the text are not spoken inside"
    ADDED_AT_START = "words are spoken at the start that the text lacks"
    ADDED_AT_END = "words are spoken at the end that the text lacks"
    ADDED_INSIDE = "words are spoken inside that the text lacks"
    CUT_AT_START = "sound is cut at the start"
    CUT_AT_END = "sound is cut at the end"
    OTHER_WORDS = "some words are spoken in another way"
    READING = "a number or an abbreviation is read in another way"
    """Never planted; set if the doubtful words belong to a number or an abbreviation."""


@dataclass(frozen=True, kw_only=True)
class AuditedWord:
    text: str
    start: float
    """Seconds from the start of the utterance; equals `end` if the word is not spoken."""
    end: float
    doubt: float
    """Probability, from 0 to 1, that the word is not spoken here."""

    @property
    def doubtful(self) -> bool:
        return self.doubt >= 0.5


@dataclass(frozen=True, kw_only=True)
class Span:
    """Stretch of speech without text, in seconds from the start of the utterance."""

    start: float
    end: float


@dataclass(frozen=True, kw_only=True)
class Reading:
    """A number or abbreviation that the speaker probably read differently from the frontend."""

    written: str
    expected: str
    """Words that the frontend expects."""
    heard: str | None
    """Words that fit the audio better; None if unknown."""

    def __str__(self) -> str:
        heard = f'likely "{self.heard}"' if self.heard else "which is doubtful"
        return f'"{self.written}", expected "{self.expected}", {heard}'


@dataclass(frozen=True, kw_only=True)
class Audited:
    id: str
    clip: str
    """Name of the clip, from `sonorant.corpus.decisions.clip_name`."""
    score: float
    """Probability, from 0 to 1, that text and audio differ."""
    fault: Fault | None
    """Most likely fault; None if `score` is below `audit.doubt`."""
    words: tuple[AuditedWord, ...]
    """Words of the spoken text; empty if no aligner ran."""
    unexplained: tuple[Span, ...]
    heard: dict[str, str]
    """Transcripts by name of the recogniser."""
    reading: Reading | None = None
    """The number or abbreviation, if `fault` is `Fault.READING`."""
    figures: dict[str, float]
    """Measurements on which the score is based."""


def write_audit(path: Path, audited: Iterable[Audited]) -> None:
    """Write one JSON object per utterance, atomically."""
    write_jsonl(path, (dataclasses.asdict(row) for row in audited))


def read_audit(path: Path) -> list[Audited]:
    """Read audit results in file order. Raises SonorantError naming file, row and key."""
    hint = "run the stage audit again"
    return [parse_checked(row, Audited, path, key=f"row {n}", hint=hint) for n, row in enumerate(read_jsonl(path), 1)]
