"""Pronounce homographs, words whose pronunciation depends on their context. Rules in `homographs.tsv` decide the clear
cases; gruut's part-of-speech tags decide the others. Phonemes are those of gruut's American English."""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from sonorant.errors import SonorantError
from sonorant.text.frontend import Phoneme, Sounds
from sonorant.text.user_lexicon import parse_phonemes

_NEAR = 80
"""Number of characters before and after a word that its rules can examine."""

Sense = tuple[str, re.Pattern[str], re.Pattern[str]]
"""Phonemes of a word, and patterns for the text before and after it."""


def homographs(text: str, symbols: Sequence[str]) -> Iterator[tuple[int, int, Sounds]]:
    """Yield each homograph that a rule decides as (index of its first character, index after its last, sounds).
    `symbols` is the phoneme inventory."""
    words, senses = _rules()
    for word in words.finditer(text):
        start, end = word.span()
        key = word[0] if word[0] in senses else word[0].lower()
        if word[0].isupper() and word[0] != key:  # an abbreviation
            continue
        before, after = text[max(start - _NEAR, 0) : start], text[end : end + _NEAR]
        fitting = (sense for sense, left, right in senses.get(key, ()) if left.search(before) and right.match(after))
        phonemes = next(fitting, None)
        if phonemes and (sounds := _phonemes(phonemes, tuple(symbols))):
            yield start, end, Sounds(sounds, word[0])


@cache
def _rules() -> tuple[re.Pattern[str], dict[str, list[Sense]]]:
    names: dict[str, str] = {}
    senses: dict[str, list[Sense]] = {}
    for line in (Path(__file__).parent / "homographs.tsv").read_text(encoding="utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        word, *fields = (
            re.sub(r"\{.+?\}", lambda name: names.get(name[0], name[0]), field) for field in line.split("\t")
        )
        if word.startswith("{"):
            names[word] = fields[0]
        else:
            phonemes, before, after = (*fields, "", "")[:3]
            sense = phonemes, re.compile(f"(?:{before})$", re.IGNORECASE), re.compile(after, re.IGNORECASE)
            senses.setdefault(word, []).append(sense)
    return re.compile(rf"\b(?:{'|'.join(senses)})\b", re.IGNORECASE), senses


@cache
def _phonemes(written: str, symbols: tuple[str, ...]) -> tuple[Phoneme, ...]:
    """Parse the phonemes `written`. Return () if one is not in the inventory `symbols`."""
    try:
        return parse_phonemes(written, symbols, "en")
    except SonorantError:
        return ()
