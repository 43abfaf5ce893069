"""Convert text to plain text for frontends: typography, unknown characters, and signs and units of German, French and
Spanish.

gruut 2.4 garbles these forms: `5kg` becomes one made-up word.
"""

import json
import re
import unicodedata
from collections.abc import Container
from functools import cache
from pathlib import Path
from typing import Any

from sonorant.text.pieces import TracedText

_PLAIN = str.maketrans(
    dict.fromkeys("‘’‚‛′´`ʼ＇", "'")
    | dict.fromkeys("“”„‟″«»＂", '"')
    | dict.fromkeys("‐‑‒−﹣－", "-")
    | {"‹": "'", "›": "'", "…": "...", "⁄": "/", "\u00ad": ""}
)
_FRACTION_AFTER_DIGIT = re.compile(r"(?<=\d)(?=[¼-¾⅐-⅞])")
NOT_ASCII = re.compile(r"[\x00-\x7f]?[^\x00-\x7f]+")
"""Pattern for characters outside ASCII and the preceding character, which an accent may modify."""
_OPENING = re.compile(r"\s*[(<\[{]+\s*")
_CLOSING = re.compile(r"[)>\]}]+(\w?)")
_NO_SPACE_AFTER = re.compile(r"(?<=\w)([,;:?!])(?=[^\W\d])|(?<=[a-z])(\.)(?=[A-Z])")
_BETWEEN_DIGITS = re.compile(r"(?<=\d)\s*–\s*(?=\d)")
_LONG_DASHES = re.compile(r"\s*(?:[–—―]+|(?<=\s)-{1,3}(?=\s)|--+)\s*")
# Scripts of languages without Latin letters, as named in Unicode's character names.
_SCRIPTS = {"ar": "ARABIC", "fa": "ARABIC", "ru": "CYRILLIC", "el": "GREEK"}


def plain_characters(text: TracedText) -> TracedText:
    """Replace typographic quotes, dashes, ligatures, wide and invisible characters (Unicode NFKC). A dash between
    phrases becomes a comma, one between digits a hyphen."""
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
    if category == "Cf":  # joiners, byte order marks, direction marks
        return ""
    if category == "Nd":
        return str(unicodedata.decimal(character))
    return character


def split_unknown(
    text: TracedText, language: str, known: Container[str] = (), unread: Container[str] = ()
) -> tuple[TracedText, tuple[str, ...]]:
    """Replace unknown characters with blanks. Return the text and these characters, each once, in order: letters of
    other scripts, symbols (emoji, mathematics), control and unassigned characters, and currency signs without a digit
    nearby; and `unread`. Characters in `known` are kept."""
    script = _SCRIPTS.get(language.split("-")[0], "LATIN")
    unknown: dict[str, None] = {}
    blanks: list[tuple[int, int, str]] = []
    for position, character in enumerate(text.text):
        neighbours = text.text[max(position - 2, 0) : position + 3]
        if character in unread or not (_can_be_spoken(character, script, neighbours) or character in known):
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
    "ẞ": "SS", "ð": "th", "Ð": "Th", "đ": "d", "Đ": "D", "ł": "l", "Ł": "L", "ı": "i",
})  # fmt: skip


def without_accents(match: re.Match[str]) -> str:
    """Return a match of `NOT_ASCII` as Latin letters without accents."""
    decomposed = unicodedata.normalize("NFD", match[0].translate(_LETTERS))
    return "".join(character for character in decomposed if unicodedata.category(character) != "Mn")


_MOMENT = re.compile(r"\b(\d{4})-(\d\d)-(\d\d)(?:T(\d\d:\d\d)(?::00(?![.\d]))?(Z?))?")
_GROUPED = re.compile(r"(?<![\w.,+])(?<!\d )[1-9]\d{0,2}(?:(?: \d{3})+(?!\d| \d)|(?:\.\d{3})+(?=,\d))")
_POINT = re.compile(r"(?<![\w.,])(\d+)\.(\d\d?|\d{4,})(?![\w.]|,\d)")
_CLOCK = re.compile(r"(?<=\d)\.(?=\d\d Uhr)")
_AFTER_NUMBER = re.compile(r"(?<=\d) ?(°C|[%€$£°]|(?:km|cm|mm|kg)\b)")
_BETWEEN = re.compile(r"(?<=\w)(?:\s*([&+=@])\s*|(\.)(?=[a-z]{2}))(?=\w)")
_SECTION = re.compile(r"§+")


def signs_written_out(text: TracedText, language: str) -> TracedText:
    """Write signs between words, and signs and units after a number, as words (`signs.json`), and numbers and ISO dates
    as gruut reads them."""
    words = signs(language)
    if not words:
        return text
    text = text.sub(
        _MOMENT,
        lambda match: " ".join(filter(None, (f"{match[3]}.{match[2]}.{match[1]}", match[4], match[5] and words["Z"]))),
    )
    text = text.sub(_CLOCK, " ")
    text = text.sub(_GROUPED, lambda match: re.sub("[ .]", words["group"], match[0]))
    if words["group"]:
        text = text.sub(_POINT, r"\1,\2")
    text = text.sub(_SECTION, f"{words['§']} ")
    text = text.sub(_AFTER_NUMBER, lambda match: f" {words[match[1]]}")
    return text.sub(_BETWEEN, lambda match: f" {words[match[1] or match[2]]} ")


@cache
def signs(language: str) -> dict[str, Any]:
    """Return the words of a language for signs, the sign between groups of digits, and the names of letters."""
    languages = json.loads((Path(__file__).parent / "signs.json").read_text(encoding="utf-8"))
    return dict(languages.get(language.split("-")[0], {}))
