"""Times of words and phonemes, computed from the durations that the voice uses."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sonorant.audio.arrays import Ints
from sonorant.text.frontend import PAUSES, Phoneme
from sonorant.text.written_words import WrittenWord


@dataclass(frozen=True, slots=True)
class Timing:
    """A phoneme and its time in seconds from the beginning of the speech."""

    text: str
    """Symbol of the phoneme."""
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class WordTiming:
    """A written word and its time in seconds from the beginning of the speech."""

    text: str
    """Word without punctuation."""
    start: float
    end: float
    first: int
    """Index of the word's first character in the text, from 0."""
    last: int
    """Index after the word's last character."""
    written: str
    """Word with punctuation, for subtitles."""
    phonemes: tuple[Timing, ...]
    """Phonemes of the word, without pauses."""
    ends_sentence: bool


class Timekeeper:
    """Computes word times of one speech: the synthesiser reports token ends, and the consumer takes completed words."""

    def __init__(self, sample_rate: int) -> None:
        self._rate = sample_rate
        self._waiting: deque[WordTiming] = deque()
        self._words: deque[WrittenWord] = deque()
        self._phonemes: Sequence[Phoneme] = ()
        self._position, self._ends_sentence = 0, False

    def begin(
        self, words: Sequence[WrittenWord], phonemes: Sequence[Phoneme], position: int, *, ends_sentence: bool
    ) -> None:
        """Begin a passage at sample `position` of the speech. Words of the previous passage that were not spoken get no
        time. `ends_sentence`: whether the passage's last word ends a sentence."""
        self._words = deque(words)
        self._phonemes, self._position, self._ends_sentence = phonemes, position, ends_sentence

    def tell(self, ends: Ints) -> None:
        """Report where each of the passage's first k tokens ends, including `^`. `ends` (k,) are exclusive sample
        offsets from the start of the passage. May be called again with more tokens."""
        while self._words and self._words[0].phonemes[1] + 1 <= len(ends):
            word = self._words.popleft()
            ended = not self._words and self._ends_sentence
            self._waiting.append(timed(word, self._phonemes, ends + self._position, self._rate, ends_sentence=ended))

    def completed(self, samples: int) -> tuple[WordTiming, ...]:
        """Remove and return the words that end at or before sample `samples` of the speech."""
        found = []
        while self._waiting and round(self._waiting[0].end * self._rate) <= samples:
            found.append(self._waiting.popleft())
        return tuple(found)


def timed(
    word: WrittenWord, phonemes: Sequence[Phoneme], ends: Ints, rate: int, *, ends_sentence: bool = False
) -> WordTiming:
    """Return the timing of a word. `phonemes`: phonemes of its phrase; `ends`: exclusive end samples of the tokens
    (k,), from `^` to at least the word's last phoneme; `rate`: sample rate in Hz."""
    first, last = word.phonemes
    edges = (np.asarray(ends[first : last + 1]) / rate).tolist()
    spoken = tuple(
        Timing(phoneme.symbol, start, end)
        for phoneme, start, end in zip(phonemes[first:last], edges[:-1], edges[1:], strict=True)
        if phoneme.symbol not in PAUSES
    )
    return WordTiming(
        word.text, edges[0], edges[-1], word.first, word.last, word.written, spoken, ends_sentence=ends_sentence
    )
