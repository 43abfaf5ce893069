"""The interface of a family's synthesiser."""

from collections.abc import Generator
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

import numpy as np

from sonorant.audio.arrays import Floats, Ints
from sonorant.errors import SonorantError
from sonorant.speech.request import Allowance, SpeechRequest
from sonorant.speech.word_times import Timekeeper

FADE_SECONDS, FADE_DB = 0.06, 72.0
"""Length and depth of the fade at the edges of a pause: 6 dB in 5 ms."""


def fade(rate: int) -> Floats:
    """Return the gains of a fade-out."""
    return 10.0 ** np.linspace(0.0, -FADE_DB / 20, round(FADE_SECONDS * rate), dtype=np.float32)


class FinishReason(IntEnum):
    """How decoding of an utterance ended: well, or with its first failure."""

    WELL = 0
    BUDGET = 1
    """The frame budget ran out and the utterance was cut off."""
    STUCK = 2
    """The pointer stayed on one phoneme for too long and was advanced."""
    SILENCE = 3
    """A silence was too long to be a pause."""
    REPETITION = 4
    """A loop of 1 to 8 frames was repeated for too long."""


@dataclass(frozen=True)
class Marking:
    """Markup of each token of a phrase; see `Speaking.marks`."""

    rate_N: Floats
    """Speed factor of each token; 2.0 is twice as fast."""
    pitch_N: Floats
    seconds_N: Floats
    """Length in seconds of each marked pause; NaN for other tokens."""


@dataclass(frozen=True)
class Synthesized:
    samples: Floats
    """Samples (B, S) in -1..1, zero past each row's end."""
    lengths: Ints
    finish_reasons: Ints
    """`FinishReason` of each row (B,)."""
    attempts: Ints
    ends: Ints | None = None
    """Exclusive end sample of each token (B, N), -1 if not reached; None if unknown."""


def no_decoding(family: str) -> SonorantError:
    return SonorantError(
        f"this voice is of the family {family}, which speaks a text in only one way; "
        "leave out seed, temperature, top-k, top-p, candidates, prompt and lookahead"
    )


class Speaking(Protocol):
    """Synthesises phonemes with the graphs of one family. Not thread-safe.

    An optional attribute `marks` (frozenset of `pause`, `rate`, `pitch`) lists the markup applied within a phrase.
    Without `pause`, a marked pause splits the phrase, with silence in between; without `rate` or `pitch`, that markup
    is rejected."""

    def check(self, request: SpeechRequest) -> None:
        """Raise SonorantError if the voice does not support the request."""

    def synthesize(self, tokens: Ints, lengths: Ints, speaker: Ints, speed: Floats) -> Synthesized:
        """Synthesise tokens (B, N, 3), with lengths, speaker and speed (B,). Samples are undefined past a row's end and
        may exceed -1..1."""

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
        """Speak one phrase, tokens (N, 3): yield samples (S,) in parts of at most `taken.limits.frames` mel frames,
        counted in `taken`, and return the finish reason.

        `first`: whether no audio has been returned yet, so that the first part should be short; `times`: receives token
        ends as soon as they are known; must be None unless `Family.why_untimed` is empty."""
