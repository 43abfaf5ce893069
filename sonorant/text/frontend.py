"""Text frontends, which convert text to phonemes, token ids and spoken text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args

import numpy as np

from sonorant.checked import Text
from sonorant.errors import SonorantError

if TYPE_CHECKING:
    from sonorant.text.user_lexicon import Lexicon

PAUSES = (",", ".", "?", "!")
"""Pause symbols, the last symbols of every frontend's inventory."""


@dataclass(frozen=True, slots=True)
class Phoneme:
    symbol: str
    """IPA without stress, with its length mark (`iː`), or one of `PAUSES`."""
    stress: int = 0
    """Stress: 0 is none, 1 primary, 2 secondary."""
    word_start: bool = False
    """Whether the phoneme begins a word; False for pauses."""


@dataclass(frozen=True, slots=True)
class SpokenUnit:
    text: str
    """Spoken word, such as `twenty`; the written word if its phonemes were given; or a pause."""
    start: int
    """Index of the first character of the written form; both words spoken for `21` have the same index."""
    end: int
    """Index after the last character of the written form."""
    first: int
    """Index of the unit's first phoneme in `SpokenText.phonemes`."""
    after: int
    """Index after the unit's last phoneme."""
    seconds: float | None = None
    """Length of a marked pause in seconds."""
    written: str = ""
    """Written form without markup, such as `20`. Set by `split_phrases`."""


@dataclass(frozen=True, slots=True)
class Sounds:
    phonemes: tuple[Phoneme, ...]
    written: str
    """The word as it appears in the spoken text."""


@dataclass(frozen=True, slots=True)
class SpokenText:
    """The output of a frontend."""

    text: str
    """Text with numbers, dates and abbreviations written out (gruut only)."""
    phonemes: tuple[Phoneme, ...]
    """Phonemes of the text; empty if there are only pauses."""
    unknown: tuple[str, ...]
    """Characters that cannot be spoken, each once."""
    units: tuple[SpokenUnit, ...] = ()
    """Words and pauses that together cover all phonemes."""


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
        """Return token ids (N, 3) int16 with start and end. Columns: symbol, stress (0, 1, 2), word start (0, 1).
        Raises SonorantError naming a phoneme that is not in the table."""
        rows = [(START, 0, 0)]
        for phoneme in phonemes:
            if phoneme.symbol not in self._ids:
                raise SonorantError(
                    f"phoneme '{phoneme.symbol}' is not one of the voice's phonemes ({' '.join(self.symbols)}); "
                    "use the frontend that the voice was trained with"
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
    lexicon: Text | None = None
    """File of words and their phonemes (docs/pronunciation.md)."""

    def __post_init__(self) -> None:
        if self.frontend not in FRONTENDS:
            raise ValueError(f"frontend is '{self.frontend}'; use one of {', '.join(FRONTENDS)}")

    def load(self, language: str) -> Frontend:
        return load_with_lexicon(self.frontend, language, self.lexicon)


def load_with_lexicon(name: str, language: str, lexicon: str | None) -> Frontend:
    """Load a frontend with a lexicon file. Raises SonorantError as `load_frontend` does, or naming an invalid line of
    the file."""
    if lexicon is None:
        return load_frontend(name, language)
    from sonorant.text.user_lexicon import read_lexicon

    return load_frontend(name, language, lexicon=read_lexicon(Path(lexicon), language))


def frontend_description(frontend: Frontend) -> dict[str, Any]:
    """Return the description of a frontend that is saved in feature stores and models."""
    return {
        "name": frontend.name,
        "version": frontend.version,
        "language": frontend.language,
        "rules": frontend.rules,
        "lexicon": frontend.lexicon and frontend.lexicon.entries,
    }


GivenSounds = Mapping[str, Sounds]
"""Phonemes of the private-use characters in a text, which stand for words with a given pronunciation."""
NOTHING_GIVEN: GivenSounds = {}


def as_written(text: str, given: GivenSounds) -> str:
    """Replace each private-use character of `text` with its written form."""
    return text if text.isascii() else "".join(given[c].written if c in given else c for c in text)


def named(characters: Iterable[str]) -> str:
    """Name characters in a message, as in `\\u4f60 (你)`; control characters only by their number."""
    return " ".join(f"{ascii(c)[1:-1]} ({c})" if c.isprintable() else ascii(c)[1:-1] for c in characters)


class Frontend(Protocol):
    """Converts text to phonemes. Can be shared between threads and pickled."""

    name: str
    """Name of the frontend, one of `FRONTENDS`."""
    language: str
    """Language code in lower case, such as `en-us`."""
    symbols: tuple[str, ...]
    """Phones of the language, then `PAUSES`."""
    rules: int
    """Revision of the rules that write out numbers and abbreviations."""
    lexicon: Lexicon | None

    @property
    def version(self) -> str:
        """Versions of the software and language data that determine pronunciations."""

    def speak(self, text: str, given: GivenSounds = NOTHING_GIVEN) -> SpokenText:
        """Convert the whole text to one sequence of phonemes. Never raises."""

    def sentences(self, text: str, given: GivenSounds = NOTHING_GIVEN) -> list[SpokenText]:
        """Return the audible sentences; the first one lists all unknown characters. Spans refer to the whole text."""


def load_frontend(name: str, language: str, *, lexicon: Lexicon | None = None) -> Frontend:
    """Load the frontend `name`. Raises SonorantError if name or language is unknown or not installed, or if a phoneme
    of the lexicon is unknown."""
    if name == "gruut":
        from sonorant.text.gruut import GruutFrontend

        return GruutFrontend(language, lexicon)
    if name == "espeak":
        from sonorant.text.espeak import EspeakFrontend

        return EspeakFrontend(language, lexicon)
    raise SonorantError(f"text.frontend: unknown frontend '{name}'; allowed: {', '.join(FRONTENDS)}")
