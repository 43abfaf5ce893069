"""Phones and diphones in a list of prompts."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from sonorant.errors import SonorantError
from sonorant.text import Frontend
from sonorant.text.frontend import PAUSES

SILENCE = "_"
"""In a diphone: a pause, or the start or end of a prompt."""


@dataclass(frozen=True, kw_only=True)
class Coverage:
    sentences: int
    characters: int
    """As written, with spaces, without line ends."""
    phones: dict[str, int]
    """Occurrences of every phone of the inventory, rarest first."""
    pauses: dict[str, int]
    diphones: dict[tuple[str, str], int]
    """Occurrences of each pair of neighbours, also across words, with `SILENCE`."""

    @property
    def missing(self) -> tuple[str, ...]:
        """Phones that do not occur."""
        return tuple(phone for phone, count in self.phones.items() if count == 0)

    @property
    def possible_diphones(self) -> int:
        """Ordered pairs of phones and silence: an upper bound."""
        return len(self.phones) ** 2 + 2 * len(self.phones)


def read_prompts(path: Path) -> list[str]:
    """Non-blank lines of a UTF-8 file. Raises SonorantError if it is unreadable or empty."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise SonorantError(f"{path}:{line}: not UTF-8; save the file as UTF-8") from None
    except OSError as error:
        raise SonorantError(f"{path}: cannot be read ({error.strerror}); name a text file, one prompt a line") from None
    prompts = [line.strip() for line in text.split("\n") if line.strip()]
    if not prompts:
        raise SonorantError(f"{path}: holds no prompts; write one a line")
    return prompts


def measure_coverage(prompts: Iterable[str], frontend: Frontend) -> Coverage:
    """Raises SonorantError quoting a prompt that cannot be spoken."""
    symbols: Counter[str] = Counter()
    diphones: Counter[tuple[str, str]] = Counter()
    sentences = characters = 0
    for sentences, prompt in enumerate(prompts, 1):
        spoken = frontend.speak(prompt)
        if spoken.unknown or not spoken.phonemes:
            unspoken = " ".join(spoken.unknown) or "nothing to say"
            raise SonorantError(f"prompt {sentences} ('{prompt}'): cannot be spoken ({unspoken}); rewrite it in words")
        characters += len(prompt)
        sequence = [phoneme.symbol for phoneme in spoken.phonemes]
        symbols.update(sequence)
        diphones.update(_diphones(sequence))
    phones = [symbol for symbol in frontend.symbols if symbol not in PAUSES]
    return Coverage(
        sentences=sentences,
        characters=characters,
        phones={phone: symbols[phone] for phone in sorted(phones, key=lambda phone: symbols[phone])},
        pauses={pause: symbols[pause] for pause in PAUSES},
        diphones=dict(diphones),
    )


def _diphones(sequence: list[str]) -> list[tuple[str, str]]:
    framed = [SILENCE, *(SILENCE if symbol in PAUSES else symbol for symbol in sequence), SILENCE]
    return [pair for pair in pairwise(framed) if pair != (SILENCE, SILENCE)]


def describe(coverage: Coverage) -> str:
    """The counts as text."""
    phones = sum(coverage.phones.values())
    share = len(coverage.diphones) / coverage.possible_diphones
    present = len(coverage.phones) - len(coverage.missing)
    lines = [
        f"sentences   {coverage.sentences:,}",
        f"characters  {coverage.characters:,}",
        f"phones      {phones:,}, {present} of the inventory's {len(coverage.phones)}",
        *(f"  {phone:<4}{count:>7,}" for phone, count in coverage.phones.items()),
        "pauses      " + ", ".join(f"'{pause}' {count:,}" for pause, count in coverage.pauses.items()),
        f"diphones    {len(coverage.diphones):,} seen of {coverage.possible_diphones:,} pairs ({share:.0%})",
        f"missing     {' '.join(coverage.missing) or 'no phone'}",
    ]
    return "\n".join(lines)
