"""Write out English addresses, dates, amounts, units, numbers and abbreviations in words.

Rules are applied in order to the whole text, each to the output of the previous one. Word tables are in `words.json`.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

from sonorant.text.pieces import Replacement, Rules, TracedText
from sonorant.text.written_forms import NOT_ASCII, without_accents

Rule = tuple[re.Pattern[str], Replacement]

_DIGIT = re.compile(r"\d")
# Applied before `plain_characters`, in which brackets, superscripts and primes lose their meaning.
_EARLY: Rules = (
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
    """Write out those signs around numbers that `plain_characters` would remove."""
    return _apply(text, _rules()[0]) if _DIGIT.search(text.text) else text


def written_out(text: TracedText) -> TracedText:
    """Write out plain text in words, without accents."""
    text = text.sub(NOT_ASCII, without_accents)
    _, first, with_digits, always = _rules()
    text = _apply(text, first)
    if _DIGIT.search(text.text):
        text = _apply(text, with_digits)
    return _apply(text, always)


def table(name: str) -> Any:
    return _tables()[name]


@cache
def _tables() -> dict[str, Any]:
    return dict(json.loads((Path(__file__).parent / "words.json").read_text(encoding="utf-8")))


def _apply(text: TracedText, rules: tuple[Rule, ...]) -> TracedText:
    for pattern, replacement in rules:
        text = text.sub(pattern, replacement)
    return text


@cache
def _rules() -> tuple[tuple[Rule, ...], ...]:
    from sonorant.text.english import abbreviations, addresses, amounts, dates

    with_digits = (*addresses.RULES, *dates.RULES, *amounts.RULES)
    groups: tuple[Rules, ...] = (_EARLY, addresses.NET, with_digits, (*dates.ALWAYS, *abbreviations.RULES))
    return tuple(tuple((re.compile(pattern), words) for pattern, words in group) for group in groups)
