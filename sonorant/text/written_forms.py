"""Written text made plain before a frontend reads it: typography, unknown characters, symbols and units.

German, French and Spanish have a table of signs and units. English has rules of its own: those here, revision 1, which
voices of before 2026-11 learned with, and those of `sonorant.text.english`, revision 2. Each rule exists because gruut
2.4 drops or garbles the form: `5kg` became one made-up word, `1/2` silence and `St. John` a street.
"""

import re
import unicodedata
from collections.abc import Callable, Container

from sonorant.text.traced import TracedText

_PLAIN = str.maketrans(
    dict.fromkeys("‘’‚‛′´`ʼ＇", "'")
    | dict.fromkeys("“”„‟″«»＂", '"')
    | dict.fromkeys("‐‑‒−﹣－", "-")
    | {"‹": "'", "›": "'", "…": "...", "⁄": "/", "\u00ad": ""}
)
_FRACTION_AFTER_DIGIT = re.compile(r"(?<=\d)(?=[¼-¾⅐-⅞])")
NOT_ASCII = re.compile(r"[\x00-\x7f]?[^\x00-\x7f]+")
"""With the character before, which an accent may belong to."""
_OPENING = re.compile(r"\s*[(<\[{]+\s*")
_CLOSING = re.compile(r"[)>\]}]+(\w?)")
_NO_SPACE_AFTER = re.compile(r"(?<=\w)([,;:?!])(?=[^\W\d])|(?<=[a-z])(\.)(?=[A-Z])")
_BETWEEN_DIGITS = re.compile(r"(?<=\d)\s*–\s*(?=\d)")
_LONG_DASHES = re.compile(r"\s*(?:[–—―]+|(?<=\s)-{1,3}(?=\s)|--+)\s*")
# Scripts of languages that do not use Latin letters, as Unicode's character names call them.
_SCRIPTS = {"ar": "ARABIC", "fa": "ARABIC", "ru": "CYRILLIC", "el": "GREEK"}


def plain_characters(text: TracedText) -> TracedText:
    """Replace typographic quotes, dashes, ligatures, wide and invisible characters by their plain forms (Unicode NFKC).
    A dash between phrases becomes a comma, because it is spoken as a pause; one between digits becomes a hyphen."""
    if not text.text.isascii():
        text = text.mapped(lambda character: character.translate(_PLAIN)).sub(_FRACTION_AFTER_DIGIT, " ")
        text = text.sub(_BETWEEN_DIGITS, "-")
    text = text.sub(_LONG_DASHES, ", ")
    if not text.text.isascii():
        text = text.sub(NOT_ASCII, lambda match: unicodedata.normalize("NFKC", match[0]).translate(_PLAIN))
        text = text.mapped(_plain)
    text = text.sub(_OPENING, " (").sub(_CLOSING, lambda match: f") {match[1]}" if match[1] else ")")
    return text.sub(_NO_SPACE_AFTER, lambda match: f"{match[0]} ")


def _plain(character: str) -> str:
    if character.isascii():
        return character
    category = unicodedata.category(character)
    if category == "Cf":  # joiners, byte order marks, direction marks: seen, not heard
        return ""
    if category == "Nd":
        return str(unicodedata.decimal(character))
    return character


def split_unknown(text: TracedText, language: str, known: Container[str] = ()) -> tuple[TracedText, tuple[str, ...]]:
    """Replace each character that cannot be spoken by a blank; also return these characters, each once, in order.
    Unknown are letters of other scripts than the language's, symbols (emoji, mathematics), control and unassigned
    characters, unless they are `known`. A currency sign is known beside a digit."""
    script = _SCRIPTS.get(language.split("-")[0], "LATIN")
    unknown: dict[str, None] = {}
    blanks: list[tuple[int, int, str]] = []
    for position, character in enumerate(text.text):
        neighbours = text.text[max(position - 2, 0) : position + 3]
        if not (_can_be_spoken(character, script, neighbours) or character in known):
            blanks.append((position, position + 1, " "))
            unknown[character] = None
    return (text.replaced(blanks) if blanks else text).strip_blanks(), tuple(unknown)


def _can_be_spoken(character: str, script: str, neighbours: str) -> bool:
    if character.isspace():
        return True
    if character.isascii() and character.isprintable():
        return character not in "^|\\~=+$" or (character == "$" and any(near.isdigit() for near in neighbours))
    category = unicodedata.category(character)
    if category[0] == "L":
        return unicodedata.name(character, "").startswith(script)
    if category == "Sc":
        return any(near.isdigit() for near in neighbours)
    return category[0] in "MP"


_LETTERS = str.maketrans({
    "ß": "ss", "æ": "ae", "Æ": "Ae", "ø": "o", "Ø": "O", "œ": "oe", "Œ": "Oe", "þ": "th", "Þ": "Th",
    "ð": "th", "Ð": "Th", "đ": "d", "Đ": "D", "ł": "l", "Ł": "L", "ı": "i",
})  # fmt: skip
_UNITS = {
    "km": "kilometers", "cm": "centimeters", "mm": "millimeters", "kg": "kilograms", "mg": "milligrams", "lb": "pounds",
    "lbs": "pounds", "oz": "ounces", "ft": "feet", "mph": "miles per hour", "hz": "hertz", "khz": "kilohertz",
    "mhz": "megahertz", "ghz": "gigahertz", "kb": "kilobytes", "mb": "megabytes", "gb": "gigabytes", "tb": "terabytes",
    "kw": "kilowatts", "kwh": "kilowatt hours", "ms": "milliseconds",
}  # fmt: skip
_FRACTIONS = {"1/2": "one half", "1/3": "one third", "2/3": "two thirds", "1/4": "one quarter", "3/4": "three quarters"}
_MULTIPLES = {"k": "thousand", "m": "million", "mn": "million", "bn": "billion", "tn": "trillion"}
_CURRENCIES = {"$": "dollars", "£": "pounds", "€": "euros", "¥": "yen", "₹": "rupees"}


def _decade(match: re.Match[str]) -> str:
    from num2words import num2words

    words = num2words(int(match[1]), to="year")
    return words[:-1] + "ies" if words.endswith("y") else words + "s"


def _large_sum(match: re.Match[str]) -> str:
    multiple = match[3].lower()
    return f"{match[2]} {_MULTIPLES.get(multiple, multiple)} {_CURRENCIES[match[1]]}"


_RULES: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"\b((?:1\d|20)\d0)'?s\b", _decade),
        (r"(?<=[$£€¥₹]) (?=\d)", ""),
        (r"([$£€¥₹])(\d+(?:\.\d+)?) ?([kmKM]|mn|bn|tn|thousand|million|billion|trillion)\b", _large_sum),
        (r"¥ ?(\d[\d,]*)", r"\1 yen"),
        (r"¢ ?(\d+)|(\d+) ?¢", r"\1\2 cents"),
        (r"(\d) ?°C\b", r"\1 degrees Celsius"),
        (r"(\d) ?°F\b", r"\1 degrees Fahrenheit"),
        (r"(\d) ?°", r"\1 degrees"),
        (r"(?<![\d/])(\d) (1/2|1/3|2/3|1/4|3/4)(?![\d/])", lambda match: f"{match[1]} and {_FRACTIONS[match[2]]}"),
        (r"(?<![\d/])(1/2|1/3|2/3|1/4|3/4)(?![\d/])", lambda match: _FRACTIONS[match[1]]),
        (
            r"(?<=\d) ?([A-Za-z]{2,3})\b",
            lambda match: f" {_UNITS[match[1].lower()]}" if match[1].lower() in _UNITS else match[0],
        ),
        (r"\b[Nn]o\. ?(?=\d)|#(?=\d)", "number "),
        (r"\bSt\. (?=[A-Z])", "Saint "),
        (r"\bProf\.", "Professor"),
        (r"\b[Ee]tc\b(?:\.(?=,|;| [a-z]))?", "et cetera"),
        (r"\S{0,8}://", " "),
        (r"(?<=[A-Za-z0-9])\.(?=[a-z]{2,})", " dot "),
        (r"(?<=[A-Za-z])/(?=[A-Za-z])", " "),
        (r"(?<=\d)(?=[A-Za-z])(?!(?:st|nd|rd|th|am|pm|a\.m|p\.m)\b)|(?<=[A-Za-z])(?=\d)", " "),
        (r"\d{16,}", lambda match: " ".join(match[0])),
        (r"(?<=\d) ?%", " percent"),
        (r" ?& ?", " and "),
        (r" ?@ ?", " at "),
        (r" ?\+ ?", " plus "),
        (r" ?= ?", " equals "),
        (r" ?× ?", " times "),
        (r" ?÷ ?", " divided by "),
        (r"~(?= ?\d)", "about "),
    )
)


def written_out(text: TracedText) -> TracedText:
    """Write English symbols, units and abbreviations in plain text as words, and remove accents: revision 1."""
    text = text.sub(NOT_ASCII, without_accents)
    for pattern, replacement in _RULES:
        text = text.sub(pattern, replacement)
    return text


def without_accents(match: re.Match[str]) -> str:
    """Latin letters without their marks."""
    decomposed = unicodedata.normalize("NFD", match[0].translate(_LETTERS))
    return "".join(character for character in decomposed if unicodedata.category(character) != "Mn")


_SIGNS = {
    "de": {
        "%": "Prozent", "€": "Euro", "$": "Dollar", "£": "Pfund", "°C": "Grad Celsius", "°": "Grad", "&": "und",
        "+": "plus", "=": "gleich", "km": "Kilometer", "cm": "Zentimeter", "mm": "Millimeter", "kg": "Kilogramm",
    },
    "fr": {
        "%": "pour cent", "€": "euros", "$": "dollars", "£": "livres", "°C": "degrés Celsius", "°": "degrés", "&": "et",
        "+": "plus", "=": "égale", "km": "kilomètres", "cm": "centimètres", "mm": "millimètres", "kg": "kilogrammes",
    },
    "es": {
        "%": "por ciento", "€": "euros", "$": "dólares", "£": "libras", "°C": "grados Celsius", "°": "grados", "&": "y",
        "+": "más", "=": "igual a", "km": "kilómetros", "cm": "centímetros", "mm": "milímetros", "kg": "kilogramos",
    },
}  # fmt: skip
_AFTER_NUMBER = re.compile(r"(?<=\d) ?(°C|[%€$£°]|(?:km|cm|mm|kg)\b)")
_BETWEEN = re.compile(r"(?<=\w)\s*([&+=])\s*(?=\w)")


def signs_written_out(text: TracedText, language: str) -> TracedText:
    """Write the signs between words, and signs and units after a number, in the words of the language, where it is
    known how: gruut drops these signs, and makes one word of the letters of a unit."""
    words = _SIGNS.get(language.split("-")[0])
    if words is None:
        return text
    text = text.sub(_AFTER_NUMBER, lambda match: f" {words[match[1]]}")
    return text.sub(_BETWEEN, lambda match: f" {words[match[1]]} ")
