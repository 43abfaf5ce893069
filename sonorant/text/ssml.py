"""SSML 1.1: speak, p, s, break, phoneme, say-as, prosody (rate, pitch) and sub; other elements are errors.

Document types are refused, so that entities cannot expand or read files.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from xml.parsers import expat

from sonorant.errors import SonorantError
from sonorant.text.arriving import Fragment, Lull
from sonorant.text.english import table
from sonorant.text.english.dates import date_in_words
from sonorant.text.english.numbers import number, ordinal, roman
from sonorant.text.markup import CheckProsody, MarkedText, Prosody, pause_character
from sonorant.text.pieces import Span
from sonorant.text.user_lexicon import parse_phonemes

MOST_CHARACTERS = 1_000_000
DEEPEST = 32
"""Maximum depth of nested elements."""
_ATTRIBUTES = {
    "speak": {"version", "xml:lang", "xmlns", "xmlns:xsi", "xsi:schemaLocation", "xml:base"},
    "p": {"xml:lang"}, "s": {"xml:lang"}, "break": {"time", "strength"}, "phoneme": {"ph", "alphabet"},
    "say-as": {"interpret-as", "format", "detail"}, "prosody": {"rate", "pitch"}, "sub": {"alias"},
}  # fmt: skip
_NEEDED = {"phoneme": "ph", "say-as": "interpret-as", "sub": "alias"}
_WHOLE = ("phoneme", "say-as", "sub")
"""Elements whose text is replaced as a whole; they may contain only text."""
_BORDERS = {"p": "\n\n", "s": "\n\u2028\n\u2028"}
"""Lines that end a paragraph, or a sentence."""
_STRENGTHS = {"none": "0", "x-weak": "0.1", "weak": "0.2", "medium": "0.4", "strong": "0.7", "x-strong": "1.2"}
_RATES = {"x-slow": 0.5, "slow": 0.75, "medium": 1.0, "default": 1.0, "fast": 1.3, "x-fast": 1.7}
_PITCHES = {"x-low": -6.0, "low": -3.0, "medium": 0.0, "default": 0.0, "high": 3.0, "x-high": 6.0}
_PERCENT = re.compile(r"([+-]?)(\d{1,4}(?:\.\d{1,4})?)%")
_NUMBER = re.compile(r"\d{1,3}(?:\.\d{1,4})?")
_SEMITONES = re.compile(r"([+-]?\d{1,2}(?:\.\d{1,4})?)st")


def read_ssml(fragments: Iterable[Fragment], marked: MarkedText, check: CheckProsody) -> Iterator[Fragment]:
    """Read the whole document, add its plain text to `marked` and yield it; yield lulls unchanged. Raises SonorantError
    naming line and column of the first error; `check` raises it for prosody that the voice does not support."""
    document = ""
    for fragment in fragments:
        if isinstance(fragment, Lull):
            yield fragment
            continue
        document += fragment
        if len(document) > MOST_CHARACTERS:
            raise SonorantError(f"SSML: more than {MOST_CHARACTERS} characters; split the document")
    yield "".join(_SsmlReader(document, marked, check).read())


class _SsmlReader:
    def __init__(self, document: str, marked: MarkedText, check: CheckProsody) -> None:
        self._document, self._marked, self._check = document, marked, check
        self._language = marked.frontend.language
        self._open: list[tuple[str, dict[str, str], Prosody]] = []
        self._whole: tuple[int, str] | None = None
        """Start of an open element of `_WHOLE`, and its text so far."""
        self._given: list[str] = []
        # First byte of each character, because expat counts bytes.
        self._starts = [*accumulate((len(c.encode("utf-8", "replace")) for c in document), initial=0)]
        self._parser = expat.ParserCreate()
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._text
        self._parser.StartDoctypeDeclHandler = self._refuse_document_type

    def read(self) -> list[str]:
        try:
            self._parser.Parse(self._document.encode("utf-8", "replace"), True)
        except expat.ExpatError as error:
            reason = expat.errors.messages[error.code]
            where = f"line {error.lineno}, column {error.offset + 1}"
            raise SonorantError(
                f"SSML {where}: {reason}; close every element, and write & as &amp; and < as &lt;"
            ) from None
        return self._given

    def _fault(self, reason: str) -> SonorantError:
        line, column = self._parser.CurrentLineNumber, self._parser.CurrentColumnNumber + 1
        return SonorantError(f"SSML line {line}, column {column}: {reason}")

    def _refuse_document_type(self, *_: object) -> None:
        raise self._fault("document types are not allowed; remove <!DOCTYPE ...>")

    def _place(self) -> int:
        return bisect_left(self._starts, self._parser.CurrentByteIndex)

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._check_element(name, attributes)
        prosody = self._open[-1][2] if self._open else Prosody()
        try:
            if name == "prosody":
                prosody = Prosody(prosody.rate * _rate(attributes), prosody.pitch + _pitch(attributes))
                self._check(prosody)
            elif name == "break":
                time = attributes.get("time", _STRENGTHS.get(attributes.get("strength", "medium"), "?"))
                self._mark(pause_character(time), self._tag_from(self._place()), prosody)
        except SonorantError as error:
            raise self._fault(f"<{name}>: {error}") from None
        self._border(name, prosody)
        self._open.append((name, attributes, prosody))
        if name in _WHOLE:
            self._whole = (self._place(), "")

    def _check_element(self, name: str, attributes: dict[str, str]) -> None:
        if not self._open and name != "speak":
            raise self._fault(f"the document begins with <{name}>; begin it with <speak>")
        if name not in _ATTRIBUTES or (self._open and name == "speak"):
            inner = ", ".join(known for known in _ATTRIBUTES if known != "speak")
            raise self._fault(f"<{name}> is not supported; inside <speak> use {inner}")
        for attribute in attributes:
            if attribute not in _ATTRIBUTES[name] and not attribute.startswith("xmlns"):
                known = ", ".join(sorted(_ATTRIBUTES[name]))
                raise self._fault(f"<{name}> does not support the attribute {attribute}; use {known}")
        if (needed := _NEEDED.get(name)) and not attributes.get(needed, "").strip():
            raise self._fault(f"<{name}> requires the attribute {needed}")
        if self._open and self._open[-1][0] in (*_WHOLE, "break"):
            raise self._fault(f"<{name}> inside <{self._open[-1][0]}>, which may contain only text")
        if len(self._open) >= DEEPEST:
            raise self._fault(f"more than {DEEPEST} nested elements; nest fewer")
        spoken = attributes.get("xml:lang", self._language).lower().replace("_", "-")
        if spoken.split("-")[0] != self._language.split("-")[0]:
            raise self._fault(f"xml:lang is {spoken}, but this voice speaks {self._language}")

    def _text(self, text: str) -> None:
        name, _, prosody = self._open[-1]
        if self._whole is not None:
            self._whole = (self._whole[0], self._whole[1] + text)
        elif name == "break" and text.strip():
            raise self._fault("<break> cannot contain text; write <break/>")
        elif name != "break":
            start = self._place()
            # A line break in a document is a blank; paragraphs are <p>.
            text = "".join(" " if character.isspace() else character for character in text)
            self._given.append(self._marked.characters(text, (start, start + len(text)), prosody))

    def _end(self, name: str) -> None:
        _, attributes, prosody = self._open.pop()
        self._border(name, prosody)
        if self._whole is not None:
            (start, text), self._whole = self._whole, None
            self._replace(name, attributes, " ".join(text.split()), self._tag_from(start), prosody)

    def _tag_from(self, start: int) -> Span:
        return start, self._document.index(">", self._place()) + 1

    def _replace(self, name: str, attributes: dict[str, str], text: str, source: Span, prosody: Prosody) -> None:
        try:
            if name == "phoneme":
                if (alphabet := attributes.get("alphabet", "ipa")) != "ipa":
                    raise SonorantError(f"unknown alphabet {alphabet}; use ipa")
                phonemes = parse_phonemes(attributes["ph"], self._marked.frontend.symbols, self._language)
                self._mark(self._marked.sounds(phonemes, text or attributes["ph"]), source, prosody)
                return
            if name == "sub":
                words = attributes["alias"]
            else:
                words = said_as(text, attributes["interpret-as"], attributes.get("format", ""), self._language)
        except SonorantError as error:
            raise self._fault(f"<{name}>: {error}") from None
        self._given.append(self._marked.characters(words, source, prosody, one_by_one=False))

    def _mark(self, character: str, source: Span, prosody: Prosody) -> None:
        self._given.append(self._marked.mark(character, source, prosody))

    def _border(self, name: str, prosody: Prosody) -> None:
        if name in _BORDERS:
            place = self._place()
            self._given.append(self._marked.characters(_BORDERS[name], (place, place), prosody, one_by_one=False))


def _rate(attributes: dict[str, str]) -> float:
    """Return the speed factor: 120% and 1.2 are absolute, +20% is relative."""
    text = attributes.get("rate", "medium").strip()
    if text in _RATES:
        return _RATES[text]
    if match := _PERCENT.fullmatch(text):
        value = float(match[2]) / 100
        rate = {"": value, "+": 1 + value, "-": 1 - value}[match[1]]
    else:
        rate = float(text) if _NUMBER.fullmatch(text) else 0.0
    if rate <= 0:
        raise SonorantError(f"invalid rate '{text[:20]}'; write 120%, +20%, 1.2 or one of {', '.join(_RATES)}")
    return rate


def _pitch(attributes: dict[str, str]) -> float:
    """Return the pitch shift in semitones: +2st, or +10% of the frequency."""
    text = attributes.get("pitch", "medium").strip()
    if text in _PITCHES:
        return _PITCHES[text]
    if match := _SEMITONES.fullmatch(text):
        return float(match[1])
    match = _PERCENT.fullmatch(text)
    ratio = 1 + float(match[1] + match[2]) / 100 if match and match[1] else 0.0
    if ratio <= 0:
        raise SonorantError(f"invalid pitch '{text[:20]}'; write +2st, +10% or one of {', '.join(_PITCHES)}")
    return 12 * math.log2(ratio)


def said_as(text: str, kind: str, form: str, language: str) -> str:
    """Return the words of `text` (single blanks) for a say-as element of `kind`. `form` is the format of a date: mdy,
    dmy, ymd, md, dm, my or y. Raises SonorantError if the kind is unknown, requires another language or does not match
    the text."""
    if kind in _ANY_LANGUAGE:
        return _ANY_LANGUAGE[kind](text, language)
    if kind not in _ENGLISH:
        raise SonorantError(f"interpret-as {kind} is unknown; use one of {', '.join((*_ANY_LANGUAGE, *_ENGLISH))}")
    if not language.startswith("en"):
        raise SonorantError(
            f"interpret-as {kind} requires an English voice, but this one speaks {language}; write the words, or "
            "use <sub>"
        )
    return _ENGLISH[kind](text, form)


def _characters(text: str, language: str) -> str:
    names = table("signs") if language.startswith("en") else {}
    letters = [names.get(character, character) for character in text if not character.isspace()]
    return ", ".join(letter.upper() if len(letter) == 1 else letter for letter in letters)


def _telephone(text: str, language: str) -> str:
    if not re.search(r"\d", text):
        raise SonorantError(f"'{text[:20]}' has no digits")
    return ", ".join(" ".join(group) for group in re.findall(r"\d+|\+", text))


def _cardinal(text: str, form: str) -> str:
    if re.fullmatch(r"[IVXLC]+", text):
        return number(str(roman(text)))
    if not re.fullmatch(r"-?[\d,]{1,20}(?:\.\d+)?", text):
        raise SonorantError(f"'{text[:20]}' is not a number")
    return number(re.sub(r",(?!\d{3}(?!\d))", ".", text))


def _ordinal(text: str, form: str) -> str:
    if re.fullmatch(r"[IVXLC]+", text):
        return ordinal(roman(text))
    digits = re.sub(r"[, ]|(?:st|nd|rd|th)$", "", text)
    if not re.fullmatch(r"-?\d{1,15}", digits):
        raise SonorantError(f"'{text[:20]}' is not a whole number")
    return ordinal(int(digits))


def _date(text: str, form: str) -> str:
    if not form:
        return text
    fields = re.findall(r"\d+", text)
    if "".join(sorted(form)) not in ("dmy", "dm", "my", "y", "m", "d"):
        raise SonorantError(f"format {form[:10]} is unknown; write mdy, dmy, ymd, md, dm, my or y")
    if len(fields) != len(form):
        raise SonorantError(f"'{text[:20]}' is not a date of format {form}")
    try:
        return date_in_words(**dict(zip(form, map(int, fields), strict=True)))
    except ValueError as error:
        raise SonorantError(f"'{text[:20]}': {error}") from None


_ANY_LANGUAGE: dict[str, Callable[[str, str], str]] = {
    **dict.fromkeys(("characters", "spell-out", "verbatim"), _characters),
    "digits": lambda text, language: _telephone(text, language).replace(",", ""),
    "telephone": _telephone,
}
_ENGLISH: dict[str, Callable[[str, str], str]] = {
    **dict.fromkeys(("cardinal", "number"), _cardinal),
    "ordinal": _ordinal,
    "date": _date,
    # The frontend writes these out itself.
    **dict.fromkeys(("time", "currency", "unit", "address", "fraction"), lambda text, form: text),
}
