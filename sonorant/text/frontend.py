"""What a text frontend returns: phonemes, their token ids and the text as spoken. Models depend on this file alone."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, Protocol, get_args

import numpy as np

from sonorant.errors import SonorantError

PAUSES = (",", ".", "?", "!")
"""Pause symbols, last in every frontend's inventory. A voice learns their length and the intonation before them."""


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
    """A text as a frontend speaks it."""

    text: str
    """The text as spoken: numbers, dates and abbreviations written out, as far as the frontend reveals them."""
    phonemes: tuple[Phoneme, ...]
    """Empty when there is nothing to say: pauses alone are not speech."""
    unknown: tuple[str, ...]
    """Characters that cannot be spoken and were left out, each once, in order of appearance."""


PADDING, START, END = 0, 1, 2
_RESERVED = 3  # the first id of a symbol


class SymbolTable:
    """Token ids of a voice's symbols: 0 is padding, 1 the start `^`, 2 the end `$`, then the symbols in order. `size`:
    number of ids, hence of rows in an embedding. Raises SonorantError if a symbol occurs twice."""

    def __init__(self, symbols: Iterable[str]) -> None:
        self.symbols = tuple(symbols)
        self._ids = {symbol: number for number, symbol in enumerate(self.symbols, _RESERVED)}
        if len(self._ids) != len(self.symbols):
            twice = next(symbol for symbol in self.symbols if self.symbols.count(symbol) > 1)
            raise SonorantError(f"symbols: '{twice}' is listed twice; a symbol has one id")
        self.size = _RESERVED + len(self.symbols)

    def to_tokens(self, phonemes: Iterable[Phoneme]) -> np.ndarray:
        """Token ids int16 (N, 3) with columns symbol, stress (0, 1, 2) and word start (0, 1), framed by `^` and `$`.
        Raises SonorantError naming a phoneme that is not in the table."""
        rows = [(START, 0, 0)]
        for phoneme in phonemes:
            if phoneme.symbol not in self._ids:
                raise SonorantError(
                    f"phoneme '{phoneme.symbol}' is not one the voice knows ({' '.join(self.symbols)}); "
                    "use the frontend it was trained with"
                )
            rows.append((self._ids[phoneme.symbol], phoneme.stress, int(phoneme.word_start)))
        rows.append((END, 0, 0))
        return np.array(rows, dtype=np.int16)

    def to_phonemes(self, tokens: np.ndarray) -> tuple[Phoneme, ...]:
        """The phonemes of token ids (N, 3), without padding, start and end. Raises SonorantError for an unknown id."""
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
    """Section `text` of params.yaml."""

    frontend: FrontendName
    """Which frontend turns text into phonemes: `gruut` (bundled, offline) or `espeak` (optional extra, GPL-3)."""

    def __post_init__(self) -> None:
        if self.frontend not in get_args(FrontendName):
            raise ValueError(f"frontend is '{self.frontend}'; allowed: {', '.join(get_args(FrontendName))}")


class Frontend(Protocol):
    """Turns text into phonemes. Safe to share between threads and to send to other processes."""

    name: str
    """The key in `FRONTENDS`."""
    language: str
    """Language code in lower case, such as `en-us`."""
    symbols: tuple[str, ...]
    """Every symbol that `speak` can return, in a fixed order: the language\'s phones, then `PAUSES`."""

    @property
    def version(self) -> str:
        """Versions of the software and language data; another version may pronounce differently."""

    def speak(self, text: str) -> SpokenText:
        """Speak the whole text as one sequence. Never raises, whatever the text."""

    def sentences(self, text: str) -> list[SpokenText]:
        """Speak the text sentence by sentence, without silent ones; the first lists the unknown characters."""


def _gruut(language: str) -> Frontend:
    from sonorant.text.gruut import GruutFrontend

    return GruutFrontend(language)


def _espeak(language: str) -> Frontend:
    from sonorant.text.espeak import EspeakFrontend

    return EspeakFrontend(language)


FRONTENDS: dict[str, Callable[[str], Frontend]] = {"gruut": _gruut, "espeak": _espeak}


def load_frontend(name: str, language: str) -> Frontend:
    """The frontend `name` for `language`. Raises SonorantError if either is unknown or not installed."""
    if name not in FRONTENDS:
        raise SonorantError(f"text.frontend: unknown frontend '{name}'; allowed: {', '.join(FRONTENDS)}")
    return FRONTENDS[name](language)


def audible_sentences(parts: Iterable[tuple[str, Iterable[Phoneme]]], unknown: tuple[str, ...]) -> list[SpokenText]:
    """Sentences of (text, phonemes), without silent ones; the first lists the `unknown` characters."""
    joined = [(spoken, joined_phonemes(part)) for spoken, part in parts]
    audible = [(spoken, part) for spoken, part in joined if part]
    return [SpokenText(spoken, part, () if number else unknown) for number, (spoken, part) in enumerate(audible)]


def joined_phonemes(phonemes: Iterable[Phoneme]) -> tuple[Phoneme, ...]:
    """Drop pauses at the start, and keep only the first strongest of several in a row."""
    result: list[Phoneme] = []
    for phoneme in phonemes:
        if phoneme.symbol not in PAUSES or (result and result[-1].symbol not in PAUSES):
            result.append(phoneme)
        elif result and result[-1].symbol == ",":
            result[-1] = phoneme
    return tuple(result)
