"""Text frontends: phonemes, token ids, spoken text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args

import numpy as np

from sonorant.errors import SonorantError

if TYPE_CHECKING:
    from sonorant.text.user_lexicon import Lexicon

PAUSES = (",", ".", "?", "!")
"""Pause symbols, last in every frontend's inventory."""


@dataclass(frozen=True, slots=True)
class Phoneme:
    """A phone or a pause."""

    symbol: str
    """IPA without stress, with its length mark (`iː`), or one of `PAUSES`."""
    stress: int = 0
    """0 none, 1 primary, 2 secondary."""
    word_start: bool = False
    """False for pauses."""


@dataclass(frozen=True, slots=True)
class SpokenUnit:
    """A spoken word or a pause."""

    text: str
    """Spoken word, such as `twenty`; written word if its phonemes were given; or pause."""
    start: int
    """First character of its written form: of both words of `20`, the 2."""
    end: int
    """The one after the last."""
    first: int
    """Index of its first phoneme in `SpokenText.phonemes`."""
    after: int
    """Index after its last phoneme."""
    seconds: float | None = None
    """Length of a marked pause."""
    written: str = ""
    """Written form without marks: `20`. Set by `split_phrases`."""


@dataclass(frozen=True, slots=True)
class Sounds:
    """Phonemes given for a word."""

    phonemes: tuple[Phoneme, ...]
    written: str
    """Their form in the spoken text."""


@dataclass(frozen=True, slots=True)
class SpokenText:
    """The output of a frontend."""

    text: str
    """With numbers, dates and abbreviations written out (gruut)."""
    phonemes: tuple[Phoneme, ...]
    """Empty if there are only pauses."""
    unknown: tuple[str, ...]
    """Characters that cannot be spoken, each once."""
    units: tuple[SpokenUnit, ...] = ()
    """Cover all phonemes."""


PADDING, START, END = 0, 1, 2
_RESERVED = 3  # the first id of a symbol


class SymbolTable:
    """Token ids of a voice's symbols: 0 padding, 1 start, 2 end, then the symbols in order. Raises SonorantError if a
    symbol occurs twice."""

    def __init__(self, symbols: Iterable[str]) -> None:
        self.symbols = tuple(symbols)
        self._ids = {symbol: number for number, symbol in enumerate(self.symbols, _RESERVED)}
        if len(self._ids) != len(self.symbols):
            twice = next(symbol for symbol in self.symbols if self.symbols.count(symbol) > 1)
            raise SonorantError(f"symbols: '{twice}' is listed twice; remove one")
        self.size = _RESERVED + len(self.symbols)

    def to_tokens(self, phonemes: Iterable[Phoneme]) -> np.ndarray:
        """Token ids int16 (N, 3) with start and end; columns: symbol, stress (0, 1, 2), word start (0, 1). Raises
        SonorantError naming a phoneme that is not in the table."""
        rows = [(START, 0, 0)]
        for phoneme in phonemes:
            if phoneme.symbol not in self._ids:
                raise SonorantError(
                    f"phoneme '{phoneme.symbol}' is not in the voice ({' '.join(self.symbols)}); "
                    "use the frontend that it was trained with"
                )
            rows.append((self._ids[phoneme.symbol], phoneme.stress, int(phoneme.word_start)))
        rows.append((END, 0, 0))
        return np.array(rows, dtype=np.int16)


FrontendName = Literal["gruut", "espeak"]
FRONTENDS = get_args(FrontendName)


@dataclass(frozen=True, kw_only=True)
class TextConfig:
    """Section `text` of params.yaml."""

    frontend: FrontendName = "gruut"
    """`gruut` (bundled, offline) or `espeak` (extra, GPL-3)."""
    lexicon: str | None = None
    """File of words and their phonemes (docs/pronunciation.md)."""

    def __post_init__(self) -> None:
        if self.frontend not in FRONTENDS:
            raise ValueError(f"frontend is '{self.frontend}'; allowed: {', '.join(FRONTENDS)}")

    def load(self, language: str) -> Frontend:
        """Raises SonorantError as `load_with_lexicon`."""
        return load_with_lexicon(self.frontend, language, self.lexicon)


def load_with_lexicon(name: str, language: str, lexicon: str | None) -> Frontend:
    """As `load_frontend`, with a lexicon file. Also raises SonorantError naming an invalid line of it."""
    if lexicon is None:
        return load_frontend(name, language)
    from sonorant.text.user_lexicon import read_lexicon

    return load_frontend(name, language, lexicon=read_lexicon(Path(lexicon), language))


def frontend_description(frontend: Frontend) -> dict[str, Any]:
    """Record of a frontend in stores and models."""
    return {
        "name": frontend.name,
        "version": frontend.version,
        "language": frontend.language,
        "rules": frontend.rules,
        "lexicon": frontend.lexicon and frontend.lexicon.entries,
    }


GivenSounds = Mapping[str, Sounds]
"""Sounds of private characters in a text."""
NOTHING_GIVEN: GivenSounds = {}


def as_written(text: str, given: GivenSounds) -> str:
    """The text with the written forms of its private characters."""
    return text if text.isascii() else "".join(given[c].written if c in given else c for c in text)


class Frontend(Protocol):
    """Text to phonemes. May be shared between threads and pickled."""

    name: str
    """One of `FRONTENDS`."""
    language: str
    """Code in lower case, such as `en-us`."""
    symbols: tuple[str, ...]
    """The language's phones, then `PAUSES`."""
    rules: int
    """Revision of the written forms."""
    lexicon: Lexicon | None

    @property
    def version(self) -> str:
        """Versions of software and language data, on which pronunciations depend."""

    def speak(self, text: str, given: GivenSounds = NOTHING_GIVEN) -> SpokenText:
        """Speak the whole text as one sequence. Never raises."""

    def sentences(self, text: str, given: GivenSounds = NOTHING_GIVEN) -> list[SpokenText]:
        """Audible sentences; the first lists all unknown characters. Spans are in the whole text."""


def load_frontend(name: str, language: str, *, lexicon: Lexicon | None = None) -> Frontend:
    """Raises SonorantError if name or language is unknown or not installed, or a phoneme of the lexicon is unknown."""
    if name == "gruut":
        from sonorant.text.gruut import GruutFrontend

        return GruutFrontend(language, lexicon)
    if name == "espeak":
        from sonorant.text.espeak import EspeakFrontend

        return EspeakFrontend(language, lexicon)
    raise SonorantError(f"text.frontend: unknown frontend '{name}'; allowed: {', '.join(FRONTENDS)}")
