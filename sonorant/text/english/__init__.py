"""Write out English addresses, dates, amounts, units, numbers, abbreviations and words in capitals.

Rules are applied in order to the whole text, each to the output of the previous one. Word tables are in `words.json`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from sonorant.text.pieces import Replacement, Rules, TracedText
from sonorant.text.written_forms import NOT_ASCII, without_accents

Rule = tuple[re.Pattern[str], Replacement]
Knows = Callable[[str], bool]
"""Function that returns whether the lexicon has a lower-case word."""

_DIGIT = re.compile(r"\d")
_LINE = re.compile(r"[^.?!\n]+")
_CAPITALS = re.compile(
    # not states, initialisms and Roman numerals
    r"\b(?!(?<=[a-z], )(?:HI|IN|ME|OH|OR)\b|(?<=\bTHE )(?:IT|US)\b|(?:AI|ER|ID|IP|OS|UN|[IVX]+)\b)"
    r"(?=[A-Z]{2})(?:[A-Z]*[AEIOUY][A-Z]*|DR|MRS?)\b(?!&)"
)
_BEFORE_DIGIT = re.compile(r"\b(?!int|[A-Z]+\d)[A-Za-z]{2,3}(?=-?\d)")
_WITHOUT_VOWELS = re.compile(r"(?<!['\w])(?!\w*(\w)\1)[b-df-hj-np-tv-xz]{2,5}(?!['\w])")
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


def written_out(text: TracedText, knows: Knows) -> TracedText:
    """Write out plain text in words, without accents."""

    def spelt(match: re.Match[str]) -> str:
        return match[0] if knows(match[0].lower()) else " ".join(match[0].upper())

    text = _out_of_capitals(text.sub(NOT_ASCII, without_accents), knows)
    _, first, with_digits, always = _rules()
    text = _apply(text, first)
    if _DIGIT.search(text.text):
        text = _apply(text.sub(_BEFORE_DIGIT, spelt), with_digits)
    return _apply(text, always).sub(_WITHOUT_VOWELS, spelt)


def _out_of_capitals(text: TracedText, knows: Knows) -> TracedText:
    """Write words in capitals as `Stop`, but not initialisms: words that the lexicon lacks, and short ones such as US.
    In a line of capitals, all that the lexicon has are words, and all of more than five letters."""
    found: list[tuple[int, int, str]] = []
    for line in _LINE.finditer(text.text):
        words = [*_CAPITALS.finditer(text.text, *line.span())]
        plain = [w for w in words if (w[0].lower() in table("short words") if len(w[0]) < 4 else knows(w[0].lower()))]
        if line[0].isupper():
            plain = [word for word in words if len(word[0]) > 5 or (plain and knows(word[0].lower()))]
        found += [(*word.span(), word[0].title()) for word in plain]
    return text.replaced(found) if found else text


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

    with_digits = (*amounts.GROUPED, *addresses.RULES, *dates.RULES, *amounts.RULES)
    groups: tuple[Rules, ...] = (_EARLY, addresses.NET, with_digits, (*dates.ALWAYS, *abbreviations.RULES))
    return tuple(tuple((re.compile(pattern), words) for pattern, words in group) for group in groups)
