"""Rules that write out streets, places, telephone numbers and internet addresses."""

import re

from sonorant.text.english import table
from sonorant.text.english.numbers import cardinal, digits, house_number, number
from sonorant.text.pieces import Rules

STATES, STREETS, _ROOMS = table("states"), table("streets"), table("rooms")
_QUARTERS = {"N": "North", "S": "South", "E": "East", "W": "West"}
_STREET = "|".join(STREETS)
_STATE = "|".join(STATES)
_QUARTER = r"(?:([NSEW])\.? )?"
_NAME = r"((?:[A-Z][a-z]+ ){1,3}|\d+(?:st|nd|rd|th) )"
_TLD = "|".join(table("top-level domains"))


def followed(match: re.Match[str], pattern: str) -> bool:
    return re.compile(pattern).match(match.string, match.end()) is not None


def ended(match: re.Match[str], next_sentence: str = r"\s+[\"'(]?[A-Z]") -> str:
    """Return `.` if the full stop of an abbreviation also ends the sentence, otherwise an empty string."""
    return "." if match[0].endswith(".") and followed(match, rf"\s*$|{next_sentence}") else ""


def _house(match: re.Match[str]) -> str:
    quarter = _QUARTERS[match[3]] + " " if match[3] else ""
    letter = f" {match[2]}" if match[2] else ""
    return f"{house_number(match[1])}{letter} {quarter}{match[4]}{STREETS[match[5]]}{ended(match)}"


def _street(match: re.Match[str]) -> str:
    quarter = _QUARTERS[match[1]] + " " if match[1] else ""
    return f"{quarter}{match[2]}{STREETS[match[3]]}{ended(match)}"


def _telephone(match: re.Match[str]) -> str:
    groups = re.findall(r"\d+", match[0])
    words = ["plus"] if match[0].startswith("+") else []
    for place, group in enumerate(groups):
        toll_free = group == "800" and place <= 1 and len(groups) > 2
        words.append("eight hundred" if toll_free else digits(group))
    return ", ".join(words).replace("plus, ", "plus ", 1)


def _net(match: re.Match[str]) -> str:
    text = re.sub(r"^https?://", "", match[0]).rstrip("/")
    text = re.sub(r"\bwww\b", " W W W ", text)
    text = re.sub(r"(?<=\.)(?!co\b)([a-z]{2})(?=$|/|\.)", lambda code: " ".join(code[1].upper()), text)
    for sign, word in (("@", "at"), (".", "dot"), ("/", "slash"), ("-", "dash"), ("_", "underscore"), ("+", "plus")):
        text = text.replace(sign, f" {word} ")
    return " ".join(re.sub(r"(?<=\D)(?=\d)|(?<=\d)(?=\D)", " ", text).split())


def _box(match: re.Match[str]) -> str:
    return f"P O box {house_number(match[1]) if len(match[1]) < 4 else digits(match[1])}"


def _room(match: re.Match[str]) -> str:
    letter = f" {match[3]}" if match[3] else ""
    return f"{_ROOMS.get(match[1].lower(), match[1])} {house_number(match[2])}{letter}"


_ADDRESS = (
    r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+",
    rf"(?:https?://)?(?:[A-Za-z0-9-]{{1,63}}\.)+(?:{_TLD})\b(?:/[\w./-]*\w)?/?",
    r"https?://[\w./-]*\w",
)
NET: Rules = tuple((rf"(?<![\w@.]){pattern}", _net) for pattern in _ADDRESS)
"""Rules for internet addresses, applied before all others."""
NAMED: Rules = (
    (rf"\b{_QUARTER}{_NAME}(Ave|Av|Blvd|Rd|Ln|Pkwy|Hwy)\b\.?", _street),
    (rf"\b{_QUARTER}{_NAME}(St)\b\.?(?! [A-Z])", _street),
    (r"\b([NSEW])\. (?=(?:[A-Z][a-z]+ )+(?:Street|Avenue|Road|Boulevard)\b)", lambda match: _QUARTERS[match[1]] + " "),
    (rf"(?<=[a-z], )({_STATE})\b", lambda match: STATES[match[1]]),
    (r"\bD\.C\.", lambda match: "D C" + ended(match)),
)
"""Rules that also apply to text without digits."""
RULES: Rules = (
    (r"(?<![\d.])(\d{1,3}\.){3}\d{1,3}(?![\d.]?\d)", lambda match: " dot ".join(map(digits, match[0].split(".")))),
    (r"(?<![\d-])(?:\+?1[-. ])?\(?\b\d{3}\)?[-. ]\d{3}[-.]\d{4}\b(?!-)", _telephone),
    (r"\+\d{1,3}(?:[ -]\d{2,4}){2,4}\b", _telephone),
    (r"(?<![\d-])\b\d{3}-\d{4}\b(?!-)", _telephone),
    (
        r"(?<![\d.])(?!\d\d?\.\d\d?\.\d{4}\b)\d+(?:\.\d+){2,}(?![\d.]?\d)",
        lambda match: " point ".join(map(number, match[0].split("."))),
    ),
    (r"\bP\.? ?O\.? Box (\d+)\b", _box),
    (r"\b([Aa]pt|[Ss]te|[Rr]m|[Hh]wy|[Rr]te|[Bb]ldg)\b\.? ?#?(\d{1,5})([A-Z]?)\b", _room),
    (r"\b([Rr]oom|[Hh]ighway|[Ff]light) (\d{3,4})()\b", _room),
    (rf"\b(\d{{1,5}})([A-Z])? {_QUARTER}{_NAME}({_STREET})\b\.?", _house),
    (r"\b(\d{4}) (?=(?:[NSEW]\.? )?[A-Z][a-z]+ (?:Street|Avenue|Road|Drive|Lane|Boulevard)\b)",
     lambda match: house_number(match[1]) + " "),
    (
        rf"\b({_STATE}) (\d{{5}})(?:-(\d{{4}}))?\b",
        lambda match: f"{STATES[match[1]]}, {digits(match[2])}" + (f", {digits(match[3])}" if match[3] else ""),
    ),
    *NAMED,
    (r"\bI-(\d{1,4})\b", lambda match: f"I {cardinal(int(match[1]))}"),
)  # fmt: skip
