"""The interface of a family's synthesizer."""

from collections.abc import Generator
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

from sonorant.audio.arrays import Floats, Ints
from sonorant.errors import SonorantError
from sonorant.speech.request import Allowance, SpeechRequest
from sonorant.speech.word_times import Timekeeper


class FinishReason(IntEnum):
    """The first thing that went wrong in an utterance."""

    WELL = 0
    BUDGET = 1
    """Cut at the end of its budget."""
    STUCK = 2
    """Too long on one phoneme, then pushed on."""
    SILENCE = 3
    """Silence longer than a pause."""
    REPETITION = 4
    """A loop of 1 to 8 frames."""


@dataclass(frozen=True)
class Marking:
    """Markup of a phrase per token, see `Speaking.marks`."""

    rate_N: Floats
    """2.0 is twice as fast."""
    pitch_N: Floats
    seconds_N: Floats
    """Of a marked pause, else NaN."""


@dataclass(frozen=True)
class Synthesized:
    samples: Floats
    """(B, S) in -1..1, zero past each end."""
    lengths: Ints
    finish_reasons: Ints
    """`FinishReason` of each row (B,)."""
    attempts: Ints
    ends: Ints | None = None
    """(B, N): sample after each token's last one, -1 if not reached; None if unknown."""


def no_decoding(family: str) -> SonorantError:
    """For decoding settings given to a family that does not decode."""
    return SonorantError(
        f"this voice is of the family {family}, which says a text in one way: "
        "leave out seed, temperature, top-k, top-p, candidates, prompt and lookahead"
    )


class Speaking(Protocol):
    """Turns phonemes into speech with the graphs of one family. For one thread at a time.

    An optional attribute `marks` (frozenset of `pause`, `rate`, `pitch`) lists the markup applied within a phrase.
    Without `pause`, marked pauses become silence between phrases; rate and pitch are rejected."""

    def check(self, request: SpeechRequest) -> None:
        """Raise SonorantError if the voice cannot do what is requested."""

    def synthesize(self, tokens: Ints, lengths: Ints, speaker: Ints, speed: Floats) -> Synthesized:
        """Tokens (B, N, 3), lengths, speaker and speed (B,) -> speech, undefined past a row's end, possibly beyond
        -1..1."""

    def parts(
        self,
        tokens: Ints,
        request: SpeechRequest,
        taken: Allowance,
        *,
        speaker: int,
        first: bool,
        marking: Marking | None = None,
        times: Timekeeper | None = None,
    ) -> Generator[Floats, None, FinishReason]:
        """Yield one phrase, tokens (N, 3), as samples (S,) in parts of at most `taken.limits.frames` mel frames;
        return how it ended. Counts its audio in `taken`.

        `first`: no audio was returned yet, so the first part should come soon; `times`: gets token ends as soon as they
        are known, only if `Family.why_untimed` is empty."""
