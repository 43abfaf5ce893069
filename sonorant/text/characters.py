"""Characters that every frontend meets alike: typography made plain, and what cannot be spoken found. Knows no pronunciation."""

from __future__ import annotations

import re
import unicodedata

_PLAIN = str.maketrans(
    dict.fromkeys("‘’‚‛′´`ʼ＇", "'")
    | dict.fromkeys("“”„‟″«»＂", '"')
    | dict.fromkeys("‐‑‒−﹣－", "-")
    | {"‹": "'", "›": "'", "…": "...", "⁄": "/", "\u00ad": ""}
)
_FRACTION_AFTER_DIGIT = re.compile(r"(?<=\d)(?=[¼-¾⅐-⅞])")
_OPENING = re.compile(r"\s*[(<\[{]+\s*")
_CLOSING = re.compile(r"[)>\]}]+(\w?)")
_NO_SPACE_AFTER = re.compile(r"(?<=\w)([,;:?!])(?=[^\W\d])|(?<=[a-z])(\.)(?=[A-Z])")
_BETWEEN_DIGITS = re.compile(r"(?<=\d)\s*–\s*(?=\d)")
_LONG_DASHES = re.compile(r"\s*(?:[–—―]+|(?<=\s)-{1,3}(?=\s)|--+)\s*")

# Scripts of the languages that are not written in Latin letters, as the character names of Unicode call them.
_SCRIPTS = {"ar": "ARABIC", "fa": "ARABIC", "ru": "CYRILLIC", "el": "GREEK"}


def plain_characters(text: str) -> str:
    """Typographic quotes, dashes, ligatures, wide and invisible characters as their plain forms (Unicode NFKC and a table).

    A dash between phrases becomes a comma, because it is spoken as a pause; one between digits becomes a hyphen.
    """
    text = _FRACTION_AFTER_DIGIT.sub(" ", text.translate(_PLAIN))
    text = _BETWEEN_DIGITS.sub("-", text)
    text = _LONG_DASHES.sub(", ", text)
    text = unicodedata.normalize("NFKC", text).translate(_PLAIN)
    text = "".join(_plain(character) for character in text)
    text = _CLOSING.sub(lambda match: f") {match[1]}" if match[1] else ")", _OPENING.sub(" (", text))
    return _NO_SPACE_AFTER.sub(r"\1\2 ", text)


def _plain(character: str) -> str:
    if character.isascii():
        return character
    category = unicodedata.category(character)
    if category == "Cf":  # joiners, byte order marks, direction marks: they change how text looks, not how it sounds
        return ""
    if category == "Nd":
        return str(unicodedata.decimal(character))
    return character


def split_unknown(text: str, language: str) -> tuple[str, tuple[str, ...]]:
    """The text with a blank for each character that cannot be spoken, and these characters, each once, in order.

    Unknown are letters of another script than the language's, symbols (emoji, mathematics), control and unassigned characters.
    A currency sign is known beside a digit.
    """
    script = _SCRIPTS.get(language.split("-")[0], "LATIN")
    kept: list[str] = []
    unknown: dict[str, None] = {}
    for position, character in enumerate(text):
        neighbours = text[max(position - 2, 0) : position + 3]
        if _can_be_spoken(character, script, neighbours):
            kept.append(character)
        else:
            kept.append(" ")
            unknown[character] = None
    return " ".join("".join(kept).split()), tuple(unknown)


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
