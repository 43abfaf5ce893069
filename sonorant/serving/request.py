"""A request to the server and the messages in which its speech comes back."""

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import NamedTuple

from sonorant.speech.request import Limits, SpeechRequest
from sonorant.speech.word_times import WordTiming
from sonorant.text.arriving import Fragment

LIMITS = Limits(characters=5_000, audio_seconds=1_800.0, work_seconds=120.0)
"""Of one request: about five minutes of speech."""


@dataclass(frozen=True, kw_only=True)
class ServedRequest(SpeechRequest):
    """A request to speak and the form of the answer, from the route through the pipe to the voice."""

    text: str
    limits: Limits = field(default=LIMITS)
    arrives: bool = False
    """Whether more text follows while it is spoken."""
    variant: str | None = None
    """Precision of the graphs; None = the voice's default."""
    encoding: str = "pcm"
    """A key of `sonorant.serving.encoding.ENCODINGS`."""
    sample_rate: int | None = None
    """Hz of the sound; None = the voice's."""
    skip: int = 0
    """Pieces not to send again after a process died."""

    def to_speech(self, text: Iterable[Fragment]) -> SpeechRequest:
        """The request with a text that arrives."""
        return SpeechRequest(**{one.name: getattr(self, one.name) for one in fields(SpeechRequest)} | {"text": text})


class Piece(NamedTuple):
    """One chunk of a speech."""

    sound: bytes
    """Encoded; may be empty."""
    words: tuple[WordTiming, ...] = ()
    """Words that end with this sound."""
    unknown: str = ""
    """Characters left out because they cannot be spoken."""
    bad: tuple[str, ...] = ()
    """Finish reasons of sentences that went wrong."""


class Ended(NamedTuple):
    """The end of a complete speech."""

    audio_seconds: float
    work_seconds: float
    """Computing time."""
    late: int = 0
    """Graphs that the process prepared since the last report, while requests waited."""
