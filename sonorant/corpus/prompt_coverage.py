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
"""Symbol in diphones for a pause or the start or end of a prompt."""


@dataclass(frozen=True, kw_only=True)
class Coverage:
    sentences: int
    phones: dict[str, int]
    """Number of occurrences of each phone of the inventory, rarest first."""
    pauses: dict[str, int]
    diphones: dict[tuple[str, str], int]
    """Number of occurrences of each pair of adjacent phones or `SILENCE`, also across words."""


def read_prompts(path: Path) -> list[str]:
    """Return the non-blank lines of a UTF-8 file. Raises SonorantError if it is unreadable or empty."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise SonorantError(f"{path}:{line}: not UTF-8; save the file as UTF-8") from None
    except OSError as error:
        raise SonorantError(
            f"{path}: cannot be read ({error.strerror}); give a text file, one prompt per line"
        ) from None
    prompts = [line.strip() for line in text.split("\n") if line.strip()]
    if not prompts:
        raise SonorantError(f"{path}: contains no prompts; write one per line")
    return prompts


def measure_coverage(prompts: Iterable[str], frontend: Frontend) -> Coverage:
    """Count phones and diphones. Raises SonorantError quoting a prompt that cannot be spoken."""
    symbols: Counter[str] = Counter()
    diphones: Counter[tuple[str, str]] = Counter()
    sentences = 0
    for sentences, prompt in enumerate(prompts, 1):
        spoken = frontend.speak(prompt)
        if spoken.unknown or not spoken.phonemes:
            unspoken = " ".join(spoken.unknown) or "no words"
            raise SonorantError(f"prompt {sentences} ('{prompt}'): cannot be spoken ({unspoken}); rewrite it in words")
        sequence = [phoneme.symbol for phoneme in spoken.phonemes]
        symbols.update(sequence)
        framed = [SILENCE, *(SILENCE if symbol in PAUSES else symbol for symbol in sequence), SILENCE]
        diphones.update(pair for pair in pairwise(framed) if pair != (SILENCE, SILENCE))
    phones = [symbol for symbol in frontend.symbols if symbol not in PAUSES]
    return Coverage(
        sentences=sentences,
        phones={phone: symbols[phone] for phone in sorted(phones, key=lambda phone: symbols[phone])},
        pauses={pause: symbols[pause] for pause in PAUSES},
        diphones=dict(diphones),
    )


def describe(coverage: Coverage) -> str:
    phones, possible = coverage.phones, len(coverage.phones) ** 2 + 2 * len(coverage.phones)
    missing = [phone for phone, count in phones.items() if count == 0]
    lines = [
        f"sentences   {coverage.sentences:,}",
        f"phones      {sum(phones.values()):,}, {len(phones) - len(missing)} of the inventory's {len(phones)}",
        *(f"  {phone:<4}{count:>7,}" for phone, count in phones.items()),
        "pauses      " + ", ".join(f"'{pause}' {count:,}" for pause, count in coverage.pauses.items()),
        f"diphones    {len(coverage.diphones):,} of {possible:,} possible ({len(coverage.diphones) / possible:.0%})",
        f"missing     {' '.join(missing) or 'no phone'}",
    ]
    return "\n".join(lines)
