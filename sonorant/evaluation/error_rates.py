"""Corpus word and character error rates with bootstrap intervals."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import jiwer
import numpy as np
from numpy.typing import NDArray

from sonorant.audio.arrays import Ints
from sonorant.errors import SonorantError
from sonorant.evaluation.estimates import Figures, estimate
from sonorant.text import Frontend, load_frontend
from sonorant.training.intervals import bootstrap, rate

VERSION = "words-1"
"""Increase the version when normalisation changes: error rates of different versions are not comparable."""
_DIGIT = re.compile(r"\d")
_APOSTROPHES = str.maketrans("’‘ʼ`´", "'''''")
# Keep an apostrophe only between two letters, as in "don't".
_OUTSIDE_WORDS = re.compile(r"(?<!\w)'|'(?!\w)|[^\w'\s]|_")


class Normalizer:
    """Lowercases text, removes punctuation and writes out digits. References are the manifest's `spoken` texts."""

    def __init__(self, language: str) -> None:
        self.language = language

    @property
    def name(self) -> str:
        return VERSION

    @cached_property
    def _frontend(self) -> Frontend:
        return load_frontend("gruut", self.language)

    def __call__(self, text: str) -> str:
        if _DIGIT.search(text):
            text = self._frontend.speak(text).text
        plain = unicodedata.normalize("NFKC", text).translate(_APOSTROPHES).lower()
        return " ".join(_OUTSIDE_WORDS.sub(" ", plain).split())


@dataclass(frozen=True)
class ErrorCounts:
    """Errors and reference lengths per utterance, int64 (U,)."""

    word_errors: Ints
    words: Ints
    character_errors: Ints
    characters: Ints

    def of(self, chosen: NDArray[np.bool_]) -> ErrorCounts:
        own = (self.word_errors, self.words, self.character_errors, self.characters)
        return ErrorCounts(*(column[chosen] for column in own))

    @property
    def wer(self) -> float:
        """Word error rate in percent."""
        return float(rate(self.word_errors, self.words))

    @property
    def cer(self) -> float:
        """Character error rate in percent, including spaces."""
        return float(rate(self.character_errors, self.characters))


def count_errors(references: Sequence[str], transcripts: Sequence[str]) -> ErrorCounts:
    """Count errors per utterance in normalised texts. Raises SonorantError if there are no utterances or a reference is
    empty."""
    if not references:
        raise SonorantError("there are no sentences to score; increase prepare.test")
    rows = []
    for reference, transcript in zip(references, transcripts, strict=True):
        if not reference.strip():
            raise SonorantError(
                "a reference text has no words after normalisation; remove texts without words from the corpus"
            )
        words = jiwer.process_words(reference, transcript)
        characters = jiwer.process_characters(reference, transcript)
        rows.append((*_errors_and_length(words), *_errors_and_length(characters)))
    return ErrorCounts(*np.array(rows, dtype=np.int64).T)


def _errors_and_length(output: jiwer.WordOutput | jiwer.CharacterOutput) -> tuple[int, int]:
    misses = output.substitutions + output.deletions
    return misses + output.insertions, misses + output.hits


def summarize(counts: ErrorCounts) -> Figures:
    return _rates(counts) | {"words": int(counts.words.sum()), "utterances": len(counts.words)}


def compare(system: ErrorCounts, baseline: ErrorCounts) -> Figures:
    """Return differences in error rate from a baseline, in percentage points with paired 95 % intervals. Raises
    ValueError if the texts differ."""
    if not (np.array_equal(system.words, baseline.words) and np.array_equal(system.characters, baseline.characters)):
        raise ValueError("two systems can be compared only on the same sentences")
    more = ErrorCounts(
        system.word_errors - baseline.word_errors,
        system.words,
        system.character_errors - baseline.character_errors,
        system.characters,
    )
    exact = {"wer": round(system.wer - baseline.wer, 3), "cer": round(system.cer - baseline.cer, 3)}
    return _rates(more) | exact


def _rates(counts: ErrorCounts) -> Figures:
    words = bootstrap(rate, counts.word_errors, counts.words)
    characters = bootstrap(rate, counts.character_errors, counts.characters)
    return estimate("wer", counts.wer, words, 3) | estimate("cer", counts.cer, characters, 3)
