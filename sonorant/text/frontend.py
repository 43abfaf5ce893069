"""What frontends give and models take: phonemes and the text they speak. Does not know where they come from.

Apart from the frontends, so that a model depends on what a phoneme is and not on how one is found.

Phonemes as integers and back. Does not know which language or frontend they come from.

What every text frontend gives: phonemes, and what it could not say. Does not know how any of them finds a
pronunciation."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, Protocol, get_args

import numpy as np

from sonorant.errors import SonorantError

PAUSES = (",", ".", "?", "!")
"""Pause symbols, last in every frontend's inventory. A voice learns how long each lasts and how speech sounds before
it."""


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


PADDING, START, END = 0, 1, 2
_RESERVED = 3


class SymbolTable:
    """Ids of a voice's symbols: 0 is padding, 1 the start `^`, 2 the end `$`, then the symbols in their order.

    `size` is the number of ids, so of rows of an embedding. Raises SonorantError if a symbol occurs twice.
    """

    def __init__(self, symbols: Iterable[str]) -> None:
        self.symbols = tuple(symbols)
        self._ids = {symbol: number for number, symbol in enumerate(self.symbols, _RESERVED)}
        if len(self._ids) != len(self.symbols):
            twice = next(symbol for symbol in self.symbols if self.symbols.count(symbol) > 1)
            raise SonorantError(f"symbols: '{twice}' is listed twice; a symbol has one id")
        self.size = _RESERVED + len(self.symbols)

    def encode(self, phonemes: Iterable[Phoneme]) -> np.ndarray:
        """Token ids int16 (N, 3): columns symbol, stress (0, 1, 2), word start (0, 1); a row for `^` before and `$`
        after.

        Raises SonorantError naming a phoneme that the table does not hold.
        """
        rows = [(START, 0, 0)]
        for phoneme in phonemes:
            if phoneme.symbol not in self._ids:
                known = " ".join(self.symbols)
                raise SonorantError(
                    f"phoneme '{phoneme.symbol}' is not one the voice knows ({known}); use the frontend it was trained with"
                )
            rows.append((self._ids[phoneme.symbol], phoneme.stress, int(phoneme.word_start)))
        rows.append((END, 0, 0))
        return np.array(rows, dtype=np.int16)

    def decode(self, tokens: np.ndarray) -> tuple[Phoneme, ...]:
        """The phonemes of token ids (N, 3), padding, start and end left out. Raises SonorantError for an id outside the
        table."""
        phonemes = []
        for symbol, stress, word_start in tokens.tolist():
            if not 0 <= symbol < self.size:
                raise SonorantError(
                    f"token id {symbol} is outside the table of {self.size} symbols; it was made with another one"
                )
            if symbol >= _RESERVED:
                phonemes.append(Phoneme(self.symbols[symbol - _RESERVED], stress, bool(word_start)))
        return tuple(phonemes)


FrontendName = Literal["gruut", "espeak"]


@dataclass(frozen=True, kw_only=True)
class TextConfig:
    """Settings of the text frontend: section `text` of the settings."""

    frontend: FrontendName
    """Which frontend turns text into phonemes: `gruut` (bundled, offline) or `espeak` (optional extra, GPL-3)."""

    def __post_init__(self) -> None:
        if self.frontend not in get_args(FrontendName):
            raise ValueError(f"frontend is '{self.frontend}'; allowed: {', '.join(get_args(FrontendName))}")


class Frontend(Protocol):
    """Text in, phonemes out. Safe to share between threads and to send to other processes."""

    @property
    def name(self) -> str:
        """The key in `FRONTENDS`."""

    @property
    def version(self) -> str:
        """Versions of the software and language data; another version may pronounce differently."""

    @property
    def language(self) -> str:
        """Language code in lower case, such as `en-us`."""

    @property
    def symbols(self) -> tuple[str, ...]:
        """Every symbol `speak` can give, in an order that does not change: the language's phones, then `PAUSES`."""

    def speak(self, text: str) -> SpokenText:
        """The whole text as one sequence. Never raises, whatever the text."""

    def sentences(self, text: str) -> list[SpokenText]:
        """The text sentence by sentence, those with nothing to say left out; what is unknown is told by the first."""


def _gruut(language: str) -> Frontend:
    from sonorant.text.gruut import GruutFrontend

    return GruutFrontend(language)


def _espeak(language: str) -> Frontend:
    from sonorant.text.espeak import EspeakFrontend

    return EspeakFrontend(language)


FRONTENDS: dict[str, Callable[[str], Frontend]] = {"gruut": _gruut, "espeak": _espeak}


def load_frontend(name: str, language: str) -> Frontend:
    """The frontend `name` for `language`. Raises SonorantError if either is not known or not installed."""
    if name not in FRONTENDS:
        raise SonorantError(f"text.frontend: unknown frontend '{name}'; allowed: {', '.join(FRONTENDS)}")
    return FRONTENDS[name](language)


def joined_phonemes(phonemes: Iterable[Phoneme]) -> tuple[Phoneme, ...]:
    """Phonemes as a model should see them: no pause at the start, and of several in a row only the first strongest."""
    result: list[Phoneme] = []
    for phoneme in phonemes:
        if phoneme.symbol not in PAUSES or (result and result[-1].symbol not in PAUSES):
            result.append(phoneme)
        elif result and result[-1].symbol == ",":
            result[-1] = phoneme
    return tuple(result)
