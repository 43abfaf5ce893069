"""What a text frontend returns: phonemes, their token ids and the text as spoken. Models depend on this file alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args

import numpy as np

from sonorant.errors import SonorantError

if TYPE_CHECKING:
    from sonorant.text.user_lexicon import Lexicon

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
class SpokenUnit:
    """A word or a pause: where it is written, and which phonemes it is."""

    text: str
    """The word as spoken, such as `twenty`; of a word whose phonemes were given, the word as written. Or a pause."""
    start: int
    """First character of the text that this is spoken for: of both words of `20`, the 2."""
    end: int
    """The character after the last."""
    first: int
    """Number of its first phoneme in `SpokenText.phonemes`."""
    after: int
    """Number of the phoneme after its last."""
    seconds: float | None = None
    """How long a pause lasts, if the text marks it."""
    written: str = ""
    """What is written there, without brackets and tags: `20` of both its words; given by `split_phrases` alone."""


@dataclass(frozen=True, slots=True)
class Sounds:
    """Phonemes that are given in place of a word."""

    phonemes: tuple[Phoneme, ...]
    written: str
    """What stands for them in the text as spoken."""


@dataclass(frozen=True, slots=True)
class SpokenText:
    """A text as a frontend speaks it."""

    text: str
    """The text as spoken: numbers, dates and abbreviations written out, as far as the frontend reveals them."""
    phonemes: tuple[Phoneme, ...]
    """Empty when there is nothing to say: pauses alone are not speech."""
    unknown: tuple[str, ...]
    """Characters that cannot be spoken and were left out, each once, in order of appearance."""
    units: tuple[SpokenUnit, ...] = ()
    """Its words and pauses in order; together they are all phonemes."""


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
    lexicon: str | None = None
    """File of words and how to pronounce them (`sonorant.text.user_lexicon`); None = none."""

    def __post_init__(self) -> None:
        if self.frontend not in get_args(FrontendName):
            raise ValueError(f"frontend is '{self.frontend}'; allowed: {', '.join(get_args(FrontendName))}")

    def load(self, language: str) -> Frontend:
        """The frontend of a language. Raises SonorantError as `load_frontend`, and for a lexicon with a fault."""
        return load_with_lexicon(self.frontend, language, self.lexicon)


def load_with_lexicon(name: str, language: str, lexicon: str | None) -> Frontend:
    """As `load_frontend`, with the words of the language in the file `lexicon`, None = none. Raises SonorantError also
    naming file and line of a fault."""
    if lexicon is None:
        return load_frontend(name, language)
    from sonorant.text.user_lexicon import read_lexicon

    return load_frontend(name, language, lexicon=read_lexicon(Path(lexicon), language))


def frontend_description(frontend: Frontend) -> dict[str, Any]:
    """What stores and models keep of a frontend, so that a voice speaks as it learned: name, version, language, rules,
    and the lexicon's words with their phonemes (None without one)."""
    return {
        "name": frontend.name,
        "version": frontend.version,
        "language": frontend.language,
        "rules": frontend.rules,
        "lexicon": frontend.lexicon and frontend.lexicon.entries,
    }


GivenSounds = Mapping[str, Sounds]
"""Single private characters of a text, and what to say in their place."""
NOTHING_GIVEN: GivenSounds = {}


class Frontend(Protocol):
    """Turns text into phonemes. Safe to share between threads and to send to other processes."""

    name: str
    """The key in `FRONTENDS`."""
    language: str
    """Language code in lower case, such as `en-us`."""
    symbols: tuple[str, ...]
    """Every symbol that `speak` can return, in a fixed order: the language's phones, then `PAUSES`."""
    rules: int
    """Revision of the rules that write out numbers and abbreviations."""
    lexicon: Lexicon | None
    """How the user pronounces words."""

    @property
    def version(self) -> str:
        """Versions of the software and language data; another version may pronounce differently."""

    def speak(self, text: str, given: GivenSounds = NOTHING_GIVEN) -> SpokenText:
        """Speak the whole text as one sequence. Never raises, whatever the text."""

    def sentences(self, text: str, given: GivenSounds = NOTHING_GIVEN) -> list[SpokenText]:
        """Speak the text sentence by sentence, without silent ones; the first lists the unknown characters. The spans
        of units are those in the whole text."""


def _gruut(language: str, rules: int | None, lexicon: Lexicon | None) -> Frontend:
    from sonorant.text.gruut import GruutFrontend

    return GruutFrontend(language, rules, lexicon)


def _espeak(language: str, rules: int | None, lexicon: Lexicon | None) -> Frontend:
    from sonorant.text.espeak import EspeakFrontend

    return EspeakFrontend(language, lexicon)


FRONTENDS: dict[str, Callable[[str, int | None, Lexicon | None], Frontend]] = {"gruut": _gruut, "espeak": _espeak}


def load_frontend(name: str, language: str, *, rules: int | None = None, lexicon: Lexicon | None = None) -> Frontend:
    """The frontend `name` for `language`. `rules`: revision of its written forms, None = the newest. Raises
    SonorantError if name, language or rules are unknown or not installed, or the lexicon has other phonemes."""
    if name not in FRONTENDS:
        raise SonorantError(f"text.frontend: unknown frontend '{name}'; allowed: {', '.join(FRONTENDS)}")
    return FRONTENDS[name](language, rules, lexicon)
