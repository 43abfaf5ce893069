"""What the audit says of each utterance: `audit.jsonl`, which the page, the review and the report read."""

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from sonorant.files import parse_checked, read_jsonl, write_jsonl


class Fault(StrEnum):
    """What is likely wrong between an utterance's text and its sound."""

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
    """No fault is planted for this one; it is named where the doubtful words say a number or an abbreviation."""


@dataclass(frozen=True, kw_only=True)
class AuditedWord:
    """A word of the spoken text and where it is heard."""

    text: str
    start: float
    """Seconds from the start of the utterance; a word that is not spoken has start = end."""
    end: float
    doubt: float
    """0 (certainly spoken here) to 1 (certainly not)."""

    @property
    def doubtful(self) -> bool:
        """Whether it is marked as doubtful."""
        return self.doubt >= 0.5


@dataclass(frozen=True, kw_only=True)
class Span:
    """A stretch of sound that the text does not account for."""

    start: float
    """Seconds from the start of the utterance."""
    end: float


@dataclass(frozen=True, kw_only=True)
class Reading:
    """A number or an abbreviation that is likely read in another way than the frontend does."""

    written: str
    expected: str
    """Words that the frontend reads."""
    heard: str | None
    """Words of another reading that the sound fits better; None if no reading was found that does."""

    def __str__(self) -> str:
        heard = f'likely "{self.heard}"' if self.heard else "which is in doubt"
        return f'"{self.written}", expected "{self.expected}", {heard}'


@dataclass(frozen=True, kw_only=True)
class Audited:
    """One utterance, judged."""

    id: str
    clip: str
    """Name of the clip by its content, as in decisions.csv: see `sonorant.corpus.decisions.clip_name`."""
    score: float
    """Probability that text and sound do not match: 0 to 1, the worst first on every page."""
    fault: Fault | None
    """The likeliest kind; None if `score` is below `audit.doubt`."""
    words: tuple[AuditedWord, ...]
    """The spoken text word by word; empty if no aligner ran."""
    unexplained: tuple[Span, ...]
    """Speech that belongs to no word."""
    heard: dict[str, str]
    """What each recogniser understood, by its name."""
    reading: Reading | None = None
    """Set where `fault` is `Fault.READING`."""
    figures: dict[str, float]
    """What the score was made of."""


def write_audit(path: Path, audited: Iterable[Audited]) -> None:
    """Write one JSON object an utterance, atomically."""
    write_jsonl(path, (dataclasses.asdict(row) for row in audited))


def read_audit(path: Path) -> list[Audited]:
    """Read `audit.jsonl` in file order. Raises SonorantError naming file, row and key."""
    hint = "run the stage audit again"
    return [parse_checked(row, Audited, path, key=f"row {n}", hint=hint) for n, row in enumerate(read_jsonl(path), 1)]
