"""Other readings of a written text: "1984" as a year, as a number or digit by digit; "BBC" in letters or as a word."""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from rapidfuzz.distance import Levenshtein

from sonorant.corpus.audit.hearing import words_of

MOST = 16
"""Other readings of a text that are tried."""
_NOT_BEFORE, _NOT_AFTER = r"(?<![\w.,:/$£€¥%#-])", r"(?![\w:/%°-]|[.,]\d)"
_NUMBER = re.compile(rf"{_NOT_BEFORE}(?:\d{{1,3}}(?:,\d{{3}})+|\d{{1,9}}){_NOT_AFTER}")
"""Plain numbers; sums, times, dates, fractions and decimals are left as the frontend reads them."""
_CAPITALS = re.compile(r"\b(?:[A-Z]{2,6}\b|(?:[A-Z]\.){2,6})")
_SHORTENED = re.compile(r"\b(dr|etc|mrs|ms|no|prof|st|vs)\.", re.IGNORECASE)
_READ_AS = {
    "dr": ("doctor", "drive"),
    "st": ("saint", "street"),
    "etc": ("et cetera", "and so on"),
    "vs": ("versus", "against"),
    "no": ("number", "no"),
    "prof": ("professor", "prof"),
    "mrs": ("missus", "mistress"),
    "ms": ("miz", "miss"),
}
"""English; of other languages only numbers and capitals are tried."""


@dataclass(frozen=True, kw_only=True)
class Form:
    """A number or an abbreviation of a text."""

    written: str
    first: int
    """The first of the spoken words that say it."""
    end: int
    """After the last of them."""


def forms(written: str, spoken: Sequence[str]) -> list[Form]:
    """The stretches of a written text that are spoken in other words than they are written in. `spoken`: its words."""
    plain = unicodedata.normalize("NFKC", written)
    places = [match.span() for match in re.finditer(r"\w+(?:['’]\w+)*", plain)]
    found: list[tuple[int, int, int, int]] = []
    for step in Levenshtein.opcodes(words_of(written), list(spoken)):
        if step.tag == "equal":
            continue
        start = (step.src_start, step.dest_start)
        if found and (found[-1][1], found[-1][3]) == start:  # it goes on
            start = (found[-1][0], found.pop()[2])
        found.append((start[0], step.src_end, start[1], step.dest_end))
    return [
        Form(written=plain[places[i1][0] : places[i2 - 1][1]], first=j1, end=j2)
        for i1, i2, j1, j2 in found
        if i2 > i1 and j2 > j1
    ]


def other_texts(written: str, language: str) -> list[str]:
    """The text with numbers, or abbreviations, written out in other readings, at most `MOST`; some may be what the
    frontend reads anyway."""
    numbers = [(match, number_readings(match[0].replace(",", ""), language)) for match in _NUMBER.finditer(written)]
    letters = [(match, _letters(match[0])) for match in _CAPITALS.finditer(written)]
    if language.startswith("en"):
        letters += [(match, _READ_AS[match[1].lower()]) for match in _SHORTENED.finditer(written)]
    manners = dict.fromkeys(manner for _, readings in numbers for manner in readings)
    texts = [_replaced(written, [(m, own[manner]) for m, own in numbers if manner in own]) for manner in manners]
    alone = letters + [(match, tuple(own.values())) for match, own in numbers if len(numbers) > 1]
    texts += [_replaced(written, [(match, reading)]) for match, readings in alone for reading in readings]
    return list(dict.fromkeys(texts))[:MOST]


def number_readings(digits: str, language: str) -> dict[str, str]:
    """Words that a whole number may be read as, by manner: as a number, a year, digit by digit; in English also in
    pairs, and without "and"."""
    found = {
        "number": _words(int(digits), "cardinal", language),
        "digits": " ".join(_words(int(digit), "cardinal", language) for digit in digits) if len(digits) > 1 else "",
        "year": _words(int(digits), "year", language) if len(digits) == 4 else "",
    }
    if language.startswith("en"):
        found["with oh"] = found["digits"].replace("zero", "oh")
        found["in pairs"] = _in_pairs(digits, language) if len(digits) in (3, 4) else ""
        found["without and"] = found["number"].replace(" and ", " ")
        found["a hundred"] = re.sub(r"^one (?=hundred|thousand)", "a ", found["number"])
    return {manner: reading for manner, reading in found.items() if reading}


def _words(number: int, manner: str, language: str) -> str:
    """Empty if the language lacks it."""
    from num2words import num2words

    try:
        spoken = num2words(number, to=manner, lang=language.split("-")[0])
    except (NotImplementedError, OverflowError, ValueError, TypeError):  # num2words raises any of them
        return ""
    return " ".join(words_of(spoken.replace("-", " ")))


def _in_pairs(digits: str, language: str) -> str:
    """nineteen eighty four, three oh five, twelve hundred."""
    head, tail = _words(int(digits[:-2]), "cardinal", language), _words(int(digits[-2:]), "cardinal", language)
    if digits.endswith("00"):
        return f"{head} hundred"
    return f"{head} oh {tail}" if digits[-2] == "0" else f"{head} {tail}"


def _letters(capitals: str) -> tuple[str, str]:
    """Letter by letter, and as a word."""
    letters = [character for character in capitals if character.isalpha()]
    return " ".join(letters), "".join(letters).lower()


def _replaced(text: str, parts: Sequence[tuple[re.Match[str], str]]) -> str:
    for match, words in sorted(parts, key=lambda part: -part[0].start()):
        text = text[: match.start()] + words + text[match.end() :]
    return text
