"""Find the phonemes of each written word: "1984" is one written word and three spoken ones. Written words are separated
by spaces and long dashes."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from sonorant.text.frontend import NOTHING_GIVEN, PAUSES, GivenSounds, SpokenText, as_written

_WORD = re.compile(r"\w+(?:'\w+)*")
_MARKS = str.maketrans({"’": "'", "‘": "'", "ʼ": "'"})
_TOKEN = re.compile(r"[^\s–—]+[–—]*|[–—]+")
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f]")
_EDGES = "\"'“”„‘’‚«»‹›()[]{}<>¿¡*_.,;:!?…。！？–—"
"""Punctuation around a word that is not part of it."""


@dataclass(frozen=True, slots=True)
class WrittenWord:
    text: str
    """Word without the punctuation around it, such as `else` for `else?"`."""
    written: str
    """Word with the punctuation around it and the silent text after it."""
    first: int
    """Index of the word's first character in the text."""
    last: int
    """Index after the word's last character, without the punctuation around it."""
    phonemes: tuple[int, int] = (0, 0)
    """Index of the first phoneme in the phrase, and index after the last."""

    def moved(self, phonemes: int) -> WrittenWord:
        return replace(self, phonemes=(self.phonemes[0] + phonemes, self.phonemes[1] + phonemes))


def place_words(
    text: str, first: int, sentences: Sequence[SpokenText], given: GivenSounds = NOTHING_GIVEN
) -> list[tuple[WrittenWord, ...]]:
    """Return the written words of each sentence. `first`: position of `text`; `given`: sounds of its private-use
    characters.

    Silent text is appended to `written` of the word before it. Written words whose spoken words interleave are merged:
    `$5 million` is spoken as "five million dollars".
    """
    text = _CONTROL.sub(" ", text)  # they are left out
    tokens = list(_TOKEN.finditer(text))
    spoken = [
        (sentence, unit)
        for sentence, found in enumerate(sentences)
        for unit in found.units
        if unit.after > unit.first and found.phonemes[unit.first].symbol not in PAUSES
    ]
    starts = [token.start() for token in tokens]
    owners = list(accumulate((max(bisect_right(starts, unit.start) - 1, 0) for _, unit in spoken), max))
    heard = {
        number
        for _, unit in spoken
        for number in range(bisect_right(starts, unit.start) - 1, bisect_left(starts, unit.end))
    }
    placed: list[list[WrittenWord]] = [[] for _ in sentences]
    latest: list[WrittenWord] = []
    before = ""
    for number, token in enumerate(tokens):
        written = as_written(token[0], given)
        bare = token[0].strip(_EDGES) or token[0]
        start = token.start() + token[0].index(bare)
        own = [each for each, owner in zip(spoken, owners, strict=True) if owner == number]
        if own:
            sentence, unit = own[0]
            after = [one.after for place, one in own if place == sentence][-1]
            latest = placed[sentence]
            places = first + start, first + start + len(bare)
            latest.append(WrittenWord(as_written(bare, given), before + written, *places, (unit.first, after)))
            before = ""
        elif latest:
            word = replace(latest[-1], written=f"{latest[-1].written} {written}")
            if number in heard:
                last = start + len(bare)
                word = replace(word, text=text[word.first - first : last], last=first + last)
            latest[-1] = word
        else:
            before += written + " "
    return [tuple(words) for words in placed]


def plain_words(text: str) -> list[str]:
    """Return the words in lower case and without punctuation, for comparing texts; compounds are split."""
    return _WORD.findall(unicodedata.normalize("NFKC", text).translate(_MARKS).casefold().replace("_", " "))
