"""A few words cut out of an utterance, to be learned from as an utterance of their own.

The alignment says between which words to cut. The cut itself is made where the sound is quietest there, and the
utterance's own silence is put around it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sonorant.audio.arrays import Floats
from sonorant.audio.conditioning import joined
from sonorant.audio.voice_activity import Span
from sonorant.corpus.manifest import Utterance
from sonorant.text.frontend import Phoneme

_FRAME = 0.01  # seconds


@dataclass(frozen=True, kw_only=True)
class ShortClip:
    """Some words of an utterance, but not all."""

    utterance: Utterance
    words: slice
    """Which words, counted from 0."""
    before: Span | None
    """Seconds of the utterance within which to cut, between two words; None: the clip begins with the utterance."""
    after: Span | None
    """The same of its end."""

    @property
    def gap(self) -> float:
        """Seconds of the shorter gap in which it is cut."""
        return min((end - start for start, end in filter(None, (self.before, self.after))), default=math.inf)

    @property
    def id(self) -> str:
        """Of the clip among the utterances, such as `arctic_a0001 words 1 to 2`."""
        return f"{self.utterance.id} words {self.words.start + 1} to {self.words.stop}"


def cut(samples: Floats, rate: int, clip: ShortClip) -> Floats:
    """The clip's samples float32 (S',), of its utterance's samples (S,) at `rate` Hz.

    To each side that is cut, the silence before the utterance's first word is joined, as far as there is any.
    """
    first = _quietest(samples, rate, clip.before) if clip.before else 0
    last = _quietest(samples, rate, clip.after) if clip.after else len(samples)
    silence = samples[: _silent(samples, rate)]
    pieces = [silence if clip.before else silence[:0], samples[first:last], silence if clip.after else silence[:0]]
    return joined([piece for piece in pieces if len(piece)], rate)


def phonemes_of(phonemes: Sequence[Phoneme], words: slice) -> tuple[Phoneme, ...]:
    """The phonemes of some of an utterance's words, and the pauses that follow them.

    Raises ValueError if the utterance has fewer words.
    """
    starts = [place for place, phoneme in enumerate(phonemes) if phoneme.word_start]
    if words.stop > len(starts):
        raise ValueError(f"{len(starts)} words, not {words.stop}")
    return tuple(phonemes[starts[words.start] : [*starts, len(phonemes)][words.stop]])


def _quietest(samples: Floats, rate: int, span: Span) -> int:
    """The middle of the quietest frame within a span of seconds."""
    width, first = round(_FRAME * rate), round(span[0] * rate)
    power = _power(samples[first : round(span[1] * rate)], width)
    return first + (int(np.argmin(power)) * width + width // 2 if len(power) else 0)


def _silent(samples: Floats, rate: int) -> int:
    """How many samples at the start stay 20 dB below the loud tenth of them all."""
    width = round(_FRAME * rate)
    power = _power(samples, width)
    if not len(power):
        return 0
    loud = np.flatnonzero(power > np.percentile(power, 90) / 100)
    return int(loud[0]) * width if len(loud) else 0


def _power(samples: Floats, width: int) -> Floats:
    """Mean squares of frames of `width` samples."""
    frames = samples[: len(samples) // width * width].reshape(-1, width)
    return np.asarray(np.square(frames).mean(axis=1))
