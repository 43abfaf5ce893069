"""Written forms of English as words, revision 2: addresses, dates, sums, units, numbers, abbreviations.

Each rule is a pattern and its words; rules run in order over the whole text, so a later one sees what earlier ones
wrote. Most need a digit, and a text without one passes them over.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache

from sonorant.text.traced import Replacement, TracedText

Rule = tuple[re.Pattern[str], Replacement]

_LETTERS = str.maketrans({
    "ß": "ss", "æ": "ae", "Æ": "Ae", "ø": "o", "Ø": "O", "œ": "oe", "Œ": "Oe", "þ": "th", "Þ": "Th",
    "ð": "th", "Ð": "Th", "đ": "d", "Đ": "D", "ł": "l", "Ł": "L", "ı": "i",
})  # fmt: skip
_ACCENTED = re.compile(r"[\x00-\x7f]?[^\x00-\x7f]+")
_DIGIT = re.compile(r"\d")
# Before typography is made plain: brackets, superscripts and primes lose their meaning there.
_EARLY: tuple[tuple[str, str], ...] = (
    ("²", "^2"),
    ("³", "^3"),
    (r"(?<=\d)″", '"'),
    (r"(?<=\d)′", "'"),
    (r"(?:(?<=\s)|^)>=? ?(?=[$£€]?\d)", "more than "),
    (r"(?:(?<=\s)|^)<=? ?(?=[$£€]?\d)", "less than "),
    (r"≥ ?(?=\d)", "at least "),
    (r"≤ ?(?=\d)", "at most "),
    (r"± ?(?=\d)", "plus or minus "),
    (r"[≈~] ?(?=[$£€]?\d)", "about "),
)


def early(text: TracedText) -> TracedText:
    """Signs around numbers that would be lost with the text's typography."""
    return _apply(text, _early_rules()) if _DIGIT.search(text.text) else text


def written_out(text: TracedText) -> TracedText:
    """Write out what is not written as words, in text whose characters are plain; remove accents."""
    text = text.sub(_ACCENTED, _without_accents)
    with_digits, always = _rules()
    if _DIGIT.search(text.text):
        text = _apply(text, with_digits)
    return _apply(text, always)


def _without_accents(match: re.Match[str]) -> str:
    decomposed = unicodedata.normalize("NFD", match[0].translate(_LETTERS))
    return "".join(character for character in decomposed if unicodedata.category(character) != "Mn")


def _apply(text: TracedText, rules: tuple[Rule, ...]) -> TracedText:
    for pattern, replacement in rules:
        text = text.sub(pattern, replacement)
    return text


@cache
def _early_rules() -> tuple[Rule, ...]:
    return tuple((re.compile(pattern), words) for pattern, words in _EARLY)


@cache
def _rules() -> tuple[tuple[Rule, ...], tuple[Rule, ...]]:
    """Those for a text with digits, and those for any."""
    from sonorant.text.english import abbreviations, addresses, amounts, dates, numerals

    groups = (addresses.RULES, dates.RULES, amounts.RULES, numerals.RULES)
    with_digits = tuple((re.compile(pattern), words) for rules in groups for pattern, words in rules)
    return with_digits, tuple((re.compile(pattern), words) for pattern, words in abbreviations.RULES)
