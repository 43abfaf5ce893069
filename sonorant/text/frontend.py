"""What every text frontend gives: phonemes, and what it could not say. Does not know how any of them finds a pronunciation."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, Protocol, get_args

from sonorant.errors import SonorantError
from sonorant.text.phonemes import PAUSES, Phoneme, SpokenText

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
