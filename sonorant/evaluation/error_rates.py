"""Corpus word and character error rates with bootstrap intervals."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jiwer
import numpy as np
from numpy.typing import NDArray

from sonorant.audio.arrays import Ints
from sonorant.errors import SonorantError
from sonorant.text import Frontend, load_frontend
from sonorant.training.intervals import bootstrap, rate

VERSION = "words-1"
"""Raise it when normalisation changes; error rates of two versions are not comparable."""
_DIGIT = re.compile(r"\d")
_APOSTROPHES = str.maketrans("’‘ʼ`´", "'''''")
# Keep an apostrophe only between two letters, as in "don't".
_OUTSIDE_WORDS = re.compile(r"(?<!\w)'|'(?!\w)|[^\w'\s]|_")


class Normalizer:
    """Lower case, no punctuation, digits written out. References use the manifest's `spoken` text, which the same
    frontend wrote."""

    def __init__(self, language: str) -> None:
        """`language`: code such as en-us."""
        self.language = language

    @property
    def name(self) -> str:
        """Normaliser name recorded beside each error rate."""
        return VERSION

    @cached_property
    def _frontend(self) -> Frontend:
        return load_frontend("gruut", self.language)

    def __call__(self, text: str) -> str:
        """Normalised words separated by single spaces; may be empty."""
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
        """Select utterances by mask (U,)."""
        own = (self.word_errors, self.words, self.character_errors, self.characters)
        return ErrorCounts(*(column[chosen] for column in own))

    @property
    def wer(self) -> float:
        """Corpus word error rate in percent."""
        return float(rate(self.word_errors, self.words))

    @property
    def cer(self) -> float:
        """Corpus character error rate in percent; spaces count."""
        return float(rate(self.character_errors, self.characters))


def count_errors(references: Sequence[str], transcripts: Sequence[str]) -> ErrorCounts:
    """Count errors per utterance in normalised texts. Raises SonorantError without utterances or for an empty
    reference."""
    if not references:
        raise SonorantError("no sentences to score; check that the test split holds any (prepare.test)")
    rows = []
    for reference, transcript in zip(references, transcripts, strict=True):
        if not reference.strip():
            raise SonorantError(
                "a reference text holds no words after normalisation; remove its utterance from the corpus"
            )
        words = jiwer.process_words(reference, transcript)
        characters = jiwer.process_characters(reference, transcript)
        rows.append((*_errors_and_length(words), *_errors_and_length(characters)))
    return ErrorCounts(*np.array(rows, dtype=np.int64).T)


def _errors_and_length(output: jiwer.WordOutput | jiwer.CharacterOutput) -> tuple[int, int]:
    misses = output.substitutions + output.deletions
    return misses + output.insertions, misses + output.hits


def summarize(counts: ErrorCounts, resamples: int) -> dict[str, Any]:
    """Error rates with intervals in percent, and the amount of text scored."""
    return {
        "wer": round(counts.wer, 3),
        "wer_ci95": _rounded(bootstrap(rate, counts.word_errors, counts.words, resamples=resamples)),
        "cer": round(counts.cer, 3),
        "cer_ci95": _rounded(bootstrap(rate, counts.character_errors, counts.characters, resamples=resamples)),
        "words": int(counts.words.sum()),
        "utterances": len(counts.words),
    }


def compare(system: ErrorCounts, baseline: ErrorCounts, resamples: int) -> dict[str, Any]:
    """Paired difference from a baseline in points, with 95 % intervals. Raises ValueError if the references differ."""
    if not (np.array_equal(system.words, baseline.words) and np.array_equal(system.characters, baseline.characters)):
        raise ValueError("two systems can be compared only on the same sentences")
    words = bootstrap(rate, system.word_errors - baseline.word_errors, system.words, resamples=resamples)
    more = system.character_errors - baseline.character_errors
    characters = bootstrap(rate, more, system.characters, resamples=resamples)
    return {
        "wer": round(system.wer - baseline.wer, 3),
        "wer_ci95": _rounded(words),
        "cer": round(system.cer - baseline.cer, 3),
        "cer_ci95": _rounded(characters),
    }


def _rounded(interval: tuple[float, float]) -> list[float]:
    return [round(bound, 3) for bound in interval]
