"""What frontends give and models take: phonemes and the text they speak. Does not know where they come from.

Apart from the frontends, so that a model depends on what a phoneme is and not on how one is found.
"""

from __future__ import annotations

from dataclasses import dataclass

PAUSES = (",", ".", "?", "!")
"""Pause symbols, last in every frontend's inventory. A voice learns how long each lasts and how speech sounds before it."""


@dataclass(frozen=True, slots=True)
class Phoneme:
    """One token: a phone of the language or a pause."""

    symbol: str
    """IPA of one phone, without stress; a long vowel is one symbol with its length mark (`iː`). Or one of `PAUSES`."""
    stress: int = 0
    """0 none, 1 primary, 2 secondary."""
    word_start: bool = False
    """Whether a word begins here; never true of a pause."""


@dataclass(frozen=True, slots=True)
class SpokenText:
    """What a frontend makes of a text."""

    text: str
    """The text as spoken: numbers, dates and abbreviations written out, as far as the frontend tells."""
    phonemes: tuple[Phoneme, ...]
    """Empty when there is nothing to say: pauses alone are not speech."""
    unknown: tuple[str, ...]
    """Characters of the text that cannot be spoken and were left out; each once, in order of appearance."""
