"""Texts made comparable before words are counted, references and transcripts alike. Knows nothing of errors or recognisers."""

from __future__ import annotations

import re
import unicodedata
from functools import cached_property

from sonorant.text import Frontend, load_frontend

VERSION = "words-1"
"""Raise it when the same text would be normalised otherwise: error rates under two versions must not be compared."""

_DIGIT = re.compile(r"\d")
_APOSTROPHES = str.maketrans("’‘ʼ`´", "'''''")
# An apostrophe belongs to a word only between two of its letters, as in "don't".
_OUTSIDE_WORDS = re.compile(r"(?<!\w)'|'(?!\w)|[^\w'\s]|_")


class Normalizer:
    """Lower case, no punctuation, numbers in words; a mark between two words becomes a space, so that words never grow together.

    References come from the manifest's `spoken` text, whose numbers the frontend wrote out. Recognisers that write digits have them
    written out by the same frontend, so a number counts alike on both sides.
    """

    def __init__(self, language: str) -> None:
        """`language`: code such as en-us, for the numbers."""
        self.language = language

    @property
    def name(self) -> str:
        """To be recorded beside every figure."""
        return VERSION

    @cached_property
    def _frontend(self) -> Frontend:
        return load_frontend("gruut", self.language)

    def __call__(self, text: str) -> str:
        """Return the words of `text` separated by single spaces; empty if there are none."""
        if _DIGIT.search(text):
            text = self._frontend.speak(text).text
        plain = unicodedata.normalize("NFKC", text).translate(_APOSTROPHES).lower()
        return " ".join(_OUTSIDE_WORDS.sub(" ", plain).split())
