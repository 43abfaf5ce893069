"""SSML's say-as: a text in words by what it is, rather than by how it looks."""

import re
from collections.abc import Callable

from sonorant.errors import SonorantError

KINDS = (
    "characters", "spell-out", "verbatim", "digits", "telephone", "cardinal", "number", "ordinal", "fraction", "date",
    "time", "currency", "unit", "address",
)  # fmt: skip
_ANY_LANGUAGE = ("characters", "spell-out", "verbatim", "digits", "telephone")
_AS_WRITTEN = ("time", "currency", "unit", "address", "fraction")
"""What the frontend reads as such by itself."""
_SIGNS = {
    ".": "dot", ",": "comma", "-": "dash", "/": "slash", "@": "at", "#": "number", "&": "and", "+": "plus",
    "_": "underscore", "*": "star", "%": "percent", ":": "colon", "'": "apostrophe", "=": "equals", "~": "tilde",
    "?": "question mark", "!": "exclamation mark", "(": "parenthesis", ")": "parenthesis", "$": "dollar",
}  # fmt: skip


def said_as(text: str, kind: str, form: str, language: str) -> str:
    """The words of `text` (one blank between words) as `kind`, in the `form` of a date (mdy, dmy, ymd, md, dm, my, y).
    Raises SonorantError for a kind that is not known, not known in this language, or does not fit the text."""
    if kind not in KINDS:
        raise SonorantError(f"interpret-as {kind} is not known here; there are {', '.join(KINDS)}")
    if kind in _ANY_LANGUAGE:
        return _one_by_one(text, kind, language)
    if not language.startswith("en"):
        raise SonorantError(
            f"interpret-as {kind} is for English; this voice speaks {language}: write the words, or sub"
        )
    if kind in _AS_WRITTEN:
        return text
    return _ENGLISH[kind](text, form)


def _one_by_one(text: str, kind: str, language: str) -> str:
    if kind in ("digits", "telephone"):
        if not re.search(r"\d", text):
            raise SonorantError(f"'{text[:20]}' holds no digits")
        groups = re.findall(r"\d+|\+", text)
        return ", ".join(" ".join(group) for group in groups) if kind == "telephone" else " ".join("".join(groups))
    names = _SIGNS if language.startswith("en") else {}
    letters = [names.get(character, character) for character in text if not character.isspace()]
    return ", ".join(letter.upper() if len(letter) == 1 else letter for letter in letters)


def _whole(text: str) -> int:
    digits = text.replace(",", "").replace(" ", "")
    if not re.fullmatch(r"-?\d{1,15}", digits):
        raise SonorantError(f"'{text[:20]}' is no whole number")
    return int(digits)


def _cardinal(text: str, form: str) -> str:
    from sonorant.text.english.numbers import number, roman

    if re.fullmatch(r"[IVXLC]+", text):
        return number(str(roman(text)))
    if not re.fullmatch(r"-?[\d,]{1,20}(?:\.\d+)?", text):
        raise SonorantError(f"'{text[:20]}' is no number")
    return number(text)


def _ordinal(text: str, form: str) -> str:
    from sonorant.text.english.numbers import ordinal, roman

    if re.fullmatch(r"[IVXLC]+", text):
        return ordinal(roman(text))
    return ordinal(_whole(re.sub(r"(?:st|nd|rd|th)$", "", text)))


def _date(text: str, form: str) -> str:
    from sonorant.text.english.dates import date_in_words

    fields = re.findall(r"\d+", text)
    if not form:
        return text
    if sorted(form) not in [sorted(known) for known in ("mdy", "md", "my", "dm", "y", "m", "d")]:
        raise SonorantError(f"format {form[:10]} is not known; write mdy, dmy, ymd, md, dm, my or y")
    if len(fields) != len(form):
        raise SonorantError(f"'{text[:20]}' is no date of the format {form}")
    try:
        return date_in_words(**dict(zip(form, map(int, fields), strict=True)))
    except ValueError as error:
        raise SonorantError(f"'{text[:20]}': {error}") from None


_ENGLISH: dict[str, Callable[[str, str], str]] = {
    "cardinal": _cardinal,
    "number": _cardinal,
    "ordinal": _ordinal,
    "date": _date,
}
