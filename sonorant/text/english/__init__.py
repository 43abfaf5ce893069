"""Written forms of English as words, revision 2: addresses, dates, sums, units, numbers, abbreviations.

Each rule is a pattern and its words; rules run in order over the whole text, so a later one sees what earlier ones
wrote. Most need a digit, and a text without one passes them over.
"""

from __future__ import annotations

import re
from functools import cache

from sonorant.text.traced import Replacement, Rules, TracedText
from sonorant.text.written_forms import NOT_ASCII, without_accents

Rule = tuple[re.Pattern[str], Replacement]

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
    text = text.sub(NOT_ASCII, without_accents)
    first, with_digits, always = _rules()
    text = _apply(text, first)
    if _DIGIT.search(text.text):
        text = _apply(text, with_digits)
    return _apply(text, always)


def _apply(text: TracedText, rules: tuple[Rule, ...]) -> TracedText:
    for pattern, replacement in rules:
        text = text.sub(pattern, replacement)
    return text


@cache
def _early_rules() -> tuple[Rule, ...]:
    return tuple((re.compile(pattern), words) for pattern, words in _EARLY)


@cache
def _rules() -> tuple[tuple[Rule, ...], ...]:
    """Those that run first, those for a text with digits, and those for any."""
    from sonorant.text.english import abbreviations, addresses, amounts, dates, numerals

    with_digits = (*addresses.RULES, *dates.RULES, *amounts.RULES, *numerals.RULES)
    groups: tuple[Rules, ...] = (addresses.NET, with_digits, (*dates.ALWAYS, *abbreviations.RULES))
    return tuple(tuple((re.compile(pattern), words) for pattern, words in group) for group in groups)
