"""What the server asks of a process that speaks, and what comes back."""

from dataclasses import dataclass, field
from typing import NamedTuple

from sonorant.speech.speaking import Limits
from sonorant.speech.word_times import WordTiming

LIMITS = Limits(characters=5_000, audio_seconds=1_800.0, work_seconds=120.0)
"""For one request: about five minutes of speech."""


@dataclass(frozen=True, kw_only=True)
class Wish:
    """One text and how it shall be spoken; arguments as of `Voice.stream`."""

    text: str
    arrives: bool = False
    """Whether more text follows while it is spoken."""
    speaker: str | None = None
    speed: float = 1.0
    pitch: float = 0.0
    energy: float = 0.0
    seed: int | None = None
    temperature: float | None = None
    variant: str | None = None
    """Precision of the graphs; None = the voice's choice."""
    markup: bool = True
    lexicon: dict[str, str] = field(default_factory=dict)
    """Words of this request with their phonemes, before those of the voice."""
    timings: bool = False
    encoding: str = "pcm"
    """A key of `sonorant.serving.encoding.ENCODINGS`."""
    sample_rate: int | None = None
    """Hz of the sound; None = the voice's own."""
    limits: Limits = LIMITS
    skip: int = 0
    """Pieces that are computed again and not given, as the listener has them from a process that died."""


class Piece(NamedTuple):
    """What a turn of a process gives."""

    sound: bytes
    """Encoded; may be empty."""
    words: tuple[WordTiming, ...] = ()
    """Words that are over with this sound."""
    unknown: str = ""
    """Characters left out, as they cannot be spoken."""
    bad: tuple[str, ...] = ()
    """Finish reasons of sentences that went wrong."""


class Ended(NamedTuple):
    """The end of a speech that went to its end."""

    audio_seconds: float
    work_seconds: float
    """Spent on computing."""
    late: int = 0
    """Graphs that the process prepared while requests waited, since it told so before."""
