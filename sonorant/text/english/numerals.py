"""Numbers: ordinals, fractions, percentages, ranges, powers, Roman numerals, and whatever digits are left."""

import re

from sonorant.text.english.numbers import cardinal, digits, number, ordinal
from sonorant.text.traced import Rules

_NUMBER = r"(\d(?:[\d,]*\d)?(?:\.\d+)?|\.\d+)"
_MULTIPLES = {"k": "thousand", "K": "thousand", "M": "million", "B": "billion", "bn": "billion", "m": "million"}


def _fraction(upper: int, lower: int) -> str:
    """Words of a fraction; over where the denominator has no short name."""
    names = {2: ("half", "halves"), 4: ("quarter", "quarters")}
    if lower not in range(2, 21) and lower not in (25, 32, 50, 64, 100, 1000):
        return f"{cardinal(upper)} over {cardinal(lower)}"
    one, many = names.get(lower, (ordinal(lower), ordinal(lower) + "s"))
    return f"{cardinal(upper)} {one if upper == 1 else many}"


def _plain_fraction(match: re.Match[str]) -> str:
    upper, lower = int(match[2]), int(match[3])
    if not 0 < upper < lower:
        return match[0]
    return (f"{cardinal(int(match[1]))} and " if match[1] else "") + _fraction(upper, lower)


def _power(match: re.Match[str]) -> str:
    base, sign, exponent = match[1], match[2], match[3]
    if exponent in "23" and not sign:
        return f"{base} {'squared' if exponent == '2' else 'cubed'}"
    return f"{base} to the power of {'minus ' if sign else ''}{cardinal(int(exponent))}"


def _scientific(match: re.Match[str]) -> str:
    minus = "minus " if match[2] == "-" else ""
    return f"{number(match[1])} times ten to the power of {minus}{cardinal(int(match[3]))}"


def _range(match: re.Match[str]) -> str:
    percent = " percent" if match[3] else ""
    return f"{number(match[1])} to {number(match[2])}{percent}"


def _ordinal(match: re.Match[str]) -> str:
    return ordinal(int(match[1].replace(",", "")))


def _remaining(match: re.Match[str]) -> str:
    return number(match[0])


_SIGNS: Rules = (
    (r"(?<=[\w)]) ?\+ ?(?=[\w(])", " plus "),
    (r"(?<=[\w)]) ?= ?(?=[\w(-])", " equals "),
    (r" ?[×✕] ?", " times "),
    (r"(?<=\d) ?\* ?(?=\d)", " times "),
    (r"(?<=\d) [xX] (?=\d)|(?<=\d)x(?=\d)", " by "),
    (r" ?÷ ?", " divided by "),
    (r"(?<=\d) - (?=\d)", " minus "),
)
RULES: Rules = (
    (r"\b24/7\b", "twenty four seven"),
    (r"\b([Nn])os?\.? ?(?=\d)(?<=[.\s])", lambda match: "numbers " if "os" in match[0] else "number "),
    (r"#(?=\d)", "number "),
    (r"(?<![\w.])(\d{1,15}(?:\.\d{1,30})?)[eE]([-+]?)(\d{1,6})\b", _scientific),
    (r"\b(\d+(?:\.\d+)?|[A-Za-z])\^(-?)(\d{1,6})\b", _power),
    (r"(?<![\w/.,])(?:(\d{1,6})[ -])?(\d{1,6})/(\d{1,6})(?![\w/])", _plain_fraction),
    (r"(?<![\d,])(\d[\d,]{0,19})(?:st|nd|rd|th)\b", _ordinal),
    (rf"(?<![\w.-]){_NUMBER} ?%? ?- ?{_NUMBER}( ?%)?(?![\w-])", _range),
    (r"(?<=\d) ?%", " percent"),
    (r"\b(\d+(?:\.\d+)?)(k|K|M|B|bn|m)(?= [a-z]{3,})", lambda match: f"{number(match[1])} {_MULTIPLES[match[2]]}"),
    (r"\b(\d+)x\b(?! ?\d)", lambda match: f"{number(match[1])} times"),
    *_SIGNS,
    (r"(?<![\w.)])-(?=\.?\d)", "minus "),
    (r"(?<=\d)(?=[A-Za-z])|(?<=[A-Za-z])-?(?=\d)", " "),
    (r"(?<![\d.])\.\d+", lambda match: f"point {digits(match[0])}"),
    (r"\d{1,3}(?:,\d{3})+(?:\.\d+)?(?!\d)|\d+(?:\.\d+)?", _remaining),
)
