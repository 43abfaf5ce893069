"""Requests to speaking processes, and messages that return the speech."""

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import NamedTuple

from sonorant.speech.request import Limits, SpeechRequest
from sonorant.speech.word_times import WordTiming
from sonorant.text.arriving import Fragment

LIMITS = Limits(characters=5_000, audio_seconds=1_800.0, work_seconds=120.0)
"""Default limits of one request: about five minutes of speech."""


@dataclass(frozen=True, kw_only=True)
class ServedRequest(SpeechRequest):
    text: str
    limits: Limits = field(default=LIMITS)
    lines: bool = True
    arrives: bool = False
    """Whether more text arrives during speech."""
    variant: str | None = None
    """Precision of the graphs; None means the voice's default."""
    encoding: str = "pcm"
    """A key of `sonorant.audio.encoding.ENCODINGS`."""
    sample_rate: int | None = None
    """Sample rate in Hz; None means the voice's."""
    skip: int = 0
    """Number of pieces to skip, because a process that died has sent them."""

    def to_speech(self, text: Iterable[Fragment]) -> SpeechRequest:
        """Convert to a `SpeechRequest` with an arriving text."""
        return SpeechRequest(**{one.name: getattr(self, one.name) for one in fields(SpeechRequest)} | {"text": text})


class Piece(NamedTuple):
    """One chunk of encoded speech."""

    sound: bytes
    """Encoded audio; may be empty."""
    words: tuple[WordTiming, ...] = ()
    """Words whose audio ends in this piece."""
    unknown: str = ""
    """Unspeakable characters that were left out."""
    bad: tuple[str, ...] = ()
    """Finish reasons of sentences that went wrong."""
    silent: bool = False
    """Whether nothing in the text can be spoken."""


class Ended(NamedTuple):
    audio_seconds: float
    work_seconds: float
    late: int = 0
    """Number of graphs compiled since the last report, while requests waited."""
