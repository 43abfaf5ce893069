"""When each word and phoneme of a text is spoken, from the durations that the voice itself speaks with."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sonorant.audio.arrays import Ints
from sonorant.text.frontend import PAUSES, Phoneme
from sonorant.text.written_words import WrittenWord


@dataclass(frozen=True, slots=True)
class Timing:
    """A phoneme and when it is spoken."""

    text: str
    """Its symbol."""
    start: float
    """Seconds from the beginning of the speech."""
    end: float


@dataclass(frozen=True, slots=True)
class WordTiming:
    """A word as the text writes it, and when it is spoken."""

    text: str
    """Without the marks around it."""
    start: float
    """Seconds from the beginning of the speech."""
    end: float
    first: int
    """Its first character in the text, from 0."""
    last: int
    """The character after its last one."""
    written: str
    """With the marks around it, for subtitles."""
    phonemes: tuple[Timing, ...]
    """Pauses excluded."""
    ends_sentence: bool
    """Whether it is the last word of its sentence."""


class Timekeeper:
    """Follows one speech: the synthesizer tells when the tokens of a passage end, and whoever hears the speech asks
    which words are complete. Keeps no word longer than that."""

    def __init__(self, sample_rate: int) -> None:
        self._rate = sample_rate
        self._waiting: deque[WordTiming] = deque()
        self._words: deque[WrittenWord] = deque()
        self._phonemes: Sequence[Phoneme] = ()
        self._position, self._ends_sentence = 0, False

    def begin(
        self, words: Sequence[WrittenWord], phonemes: Sequence[Phoneme], position: int, *, ends_sentence: bool
    ) -> None:
        """The words and phonemes of the next passage, whose sound begins at sample `position` of the speech. Words of
        the one before that were not reached have no timing. `ends_sentence`: whether its last word does."""
        self._words = deque(words)
        self._phonemes, self._position, self._ends_sentence = phonemes, position, ends_sentence

    def tell(self, ends: Ints) -> None:
        """How the passage's tokens lie in its sound, as far as that is decided: for each of the first tokens, of which
        `^` is one, the sample after its last (k,), counted from where the passage begins. A later call knows more."""
        while self._words and self._words[0].phonemes[1] + 1 <= len(ends):
            word = self._words.popleft()
            ended = not self._words and self._ends_sentence
            self._waiting.append(timed(word, self._phonemes, ends + self._position, self._rate, ends_sentence=ended))

    def completed(self, samples: int) -> tuple[WordTiming, ...]:
        """The words, each given once, that are over by sample `samples` of the speech."""
        found = []
        while self._waiting and round(self._waiting[0].end * self._rate) <= samples:
            found.append(self._waiting.popleft())
        return tuple(found)


def timed(
    word: WrittenWord, phonemes: Sequence[Phoneme], ends: Ints, rate: int, *, ends_sentence: bool = False
) -> WordTiming:
    """A word's timing. `phonemes`: of its phrase; `ends`: sample after the last of each token (k,), `^` first, at least
    up to the word's last phoneme; `rate`: Hz."""
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
