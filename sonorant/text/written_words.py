"""Which phonemes speak which word of the text as it is written: "1984" is one written word and three spoken ones.

A frontend does not tell where its words come from, and what it rewrites (numbers, signs, abbreviations) differs from
language to language. So each written word is also spoken alone, and its spoken words are found again among those of the
whole text. Where all words are plain and as many as are spoken, they are simply counted."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from sonorant.text.frontend import PAUSES, Frontend, Phoneme, SpokenText

_TOKEN = re.compile(r"[^\s–—]+[–—]*|[–—]+")
"""What stands between spaces; a long dash also divides words."""
_PLAIN = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_EDGES = "\"'“”„‘’‚«»‹›()[]{}<>¿¡*_.,;:!?…。！？–—"
"""Marks around a word that are no part of it."""


@dataclass(frozen=True, slots=True)
class WrittenWord:
    """A word of the text, and the phonemes that speak it."""

    text: str
    """Without the marks around it: `else` of `else?"`."""
    written: str
    """With them, and with what stands behind it and is not spoken."""
    first: int
    """Its first character in the text, from 0."""
    last: int
    """The character after its last one; marks around it excluded."""
    phonemes: tuple[int, int] = (0, 0)
    """The first of its phonemes in the phrase, from 0, and the one after the last."""


def written_words(text: str, first: int = 0) -> list[WrittenWord]:
    """What stands between spaces in a text, from its character `first` on, without phonemes yet; also lone marks."""
    found = []
    for token in _TOKEN.finditer(text):
        bare = token[0].strip(_EDGES) or token[0]
        start = first + token.start() + token[0].index(bare)
        found.append(WrittenWord(bare, token[0], start, start + len(bare)))
    return found


def place_words(
    text: str, first: int, sentences: Sequence[SpokenText], frontend: Frontend
) -> list[tuple[WrittenWord, ...]]:
    """The written words of each sentence that a frontend made of `text`, which begins at character `first`.

    What is not spoken stands with the word before it, in `written`. Written words that are spoken across each other are
    one word: `$5 million`, said as "five million dollars".
    """
    tokens = written_words(text, first)
    spoken = [span for number, sentence in enumerate(sentences) for span in _spoken_words(number, sentence.phonemes)]
    owners, audible = _owners(tokens, spoken, frontend)
    placed: list[list[WrittenWord]] = [[] for _ in sentences]
    latest: list[WrittenWord] = []
    before = ""
    for number, token in enumerate(tokens):
        own = [span for span, owner in zip(spoken, owners, strict=True) if owner == number]
        if own:
            ends = [span.last for span in own if span.sentence == own[0].sentence]
            latest = placed[own[0].sentence]
            latest.append(replace(token, written=before + token.written, phonemes=(own[0].first, ends[-1])))
            before = ""
        elif latest:
            word = replace(latest[-1], written=f"{latest[-1].written} {token.written}")
            if number in audible:
                word = replace(word, text=text[word.first - first : token.last - first], last=token.last)
            latest[-1] = word
        else:
            before += token.written + " "
    return [tuple(words) for words in placed]


@dataclass(frozen=True, slots=True)
class _Spoken:
    """A spoken word: its sentence, its phonemes there, and their symbols."""

    sentence: int
    first: int
    last: int
    symbols: tuple[str, ...]


def _spoken_words(sentence: int, phonemes: Sequence[Phoneme]) -> list[_Spoken]:
    """The words of a sentence; its pauses belong to none."""
    starts = [place for place, phoneme in enumerate(phonemes) if phoneme.word_start]
    found = []
    for start, following in pairwise([*starts, len(phonemes)]):
        end = next((place for place in range(start, following) if phonemes[place].symbol in PAUSES), following)
        found.append(_Spoken(sentence, start, end, tuple(phoneme.symbol for phoneme in phonemes[start:end])))
    return found


def _owners(tokens: Sequence[WrittenWord], spoken: Sequence[_Spoken], frontend: Frontend) -> tuple[list[int], set[int]]:
    """The place of the written word that each spoken word belongs to, which never falls; and the places of all written
    words that are spoken."""
    worded = [place for place, token in enumerate(tokens) if token.written.strip(_EDGES)]
    if len(worded) == len(spoken) and all(_PLAIN.fullmatch(tokens[place].text) for place in worded):
        return worded, set(worded)
    from difflib import SequenceMatcher  # not where nothing was rewritten

    alone = [
        (place, word.symbols)
        for place in worded
        for word in _spoken_words(0, frontend.speak(tokens[place].written).phonemes)
    ]
    if not alone:
        return worded[:1] * len(spoken), set(worded[:1])
    owners: list[int] = []
    words = [symbols for _, symbols in alone], [word.symbols for word in spoken]
    for _, low, high, start, end in SequenceMatcher(None, *words, autojunk=False).get_opcodes():
        for number in range(end - start):
            if high > low:  # as many, or spread evenly
                owner = alone[low + (2 * number + 1) * (high - low) // (2 * (end - start))][0]
            else:  # what no written word says alone belongs to the one before
                owner = alone[max(low - 1, 0)][0]
            owners.append(owner)
    return owners, {place for place, _ in alone}
