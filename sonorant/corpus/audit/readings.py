"""Alternative readings of numbers and abbreviations: "1984" as a year, a number or digit by digit; "BBC" as letters or
a word. The aligner compares them with the frontend's reading; recognisers may settle unclear cases."""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypedDict

import numpy as np
from rapidfuzz.distance import Levenshtein

from sonorant.audio.arrays import Floats
from sonorant.corpus.audit.evidence import prefix_scores
from sonorant.corpus.audit.findings import Audited, AuditedWord, Fault, Reading
from sonorant.corpus.audit.labels import Labels, Said
from sonorant.corpus.manifest import Utterance
from sonorant.corpus.splits import WORD, words_of

MOST = 16
"""Maximum number of readings of a text."""
_NOT_BEFORE, _NOT_AFTER = r"(?<![\w.,:/$£€¥%#-])", r"(?![\w:/%°-]|[.,]\d)"
_NUMBER = re.compile(rf"{_NOT_BEFORE}(?:\d{{1,3}}(?:,\d{{3}})+|\d{{1,9}}){_NOT_AFTER}")
"""Plain numbers only, not amounts of money, times, dates, fractions or decimals."""
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
"""Readings of English abbreviations; other languages have none."""


@dataclass(frozen=True, kw_only=True)
class Form:
    written: str
    first: int
    """Index of the first spoken word."""
    end: int
    """Index after the last spoken word."""


def forms(written: str, spoken: Sequence[str]) -> list[Form]:
    """Return the parts of a written text that are written differently in `spoken`."""
    plain = unicodedata.normalize("NFKC", written)
    places = [match.span() for match in WORD.finditer(plain)]
    found: list[tuple[int, int, int, int]] = []
    for step in Levenshtein.opcodes(words_of(written), list(spoken)):
        if step.tag == "equal":
            continue
        start = (step.src_start, step.dest_start)
        if found and (found[-1][1], found[-1][3]) == start:  # continues the stretch
            start = (found[-1][0], found.pop()[2])
        found.append((start[0], step.src_end, start[1], step.dest_end))
    return [
        Form(written=plain[places[i1][0] : places[i2 - 1][1]], first=j1, end=j2)
        for i1, i2, j1, j2 in found
        if i2 > i1 and j2 > j1
    ]


def other_texts(written: str, language: str) -> list[str]:
    """Return texts with numbers or abbreviations read differently, at most `MOST`."""
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
    """Return a number in words, or "" if the language does not support `manner`."""
    from num2words import num2words

    try:
        spoken = num2words(number, to=manner, lang=language.split("-")[0])
    except (NotImplementedError, OverflowError, ValueError, TypeError):  # num2words raises any of them
        return ""
    return " ".join(words_of(spoken.replace("-", " ")))


def _in_pairs(digits: str, language: str) -> str:
    """Read a number as in nineteen eighty four, three oh five or twelve hundred."""
    head, tail = _words(int(digits[:-2]), "cardinal", language), _words(int(digits[-2:]), "cardinal", language)
    if digits.endswith("00"):
        return f"{head} hundred"
    return f"{head} oh {tail}" if digits[-2] == "0" else f"{head} {tail}"


def _letters(capitals: str) -> tuple[str, str]:
    letters = [character for character in capitals if character.isalpha()]
    return " ".join(letters), "".join(letters).lower()


def _replaced(text: str, parts: Sequence[tuple[re.Match[str], str]]) -> str:
    for match, words in sorted(parts, key=lambda part: -part[0].start()):
        text = text[: match.start()] + words + text[match.end() :]
    return text


CERTAIN = 10.0
"""Nats by which a reading must exceed the frontend's to be certain."""
SHARE = 0.2
"""Fraction of `lacking` that a reading must gain to be certain, because no reading fits if the text is wrong."""


@dataclass(frozen=True, kw_only=True)
class Question:
    utterance: Utterance
    words: tuple[Said, ...]
    """The frontend's reading."""
    others: tuple[tuple[Said, ...], ...]
    """Alternative readings; may be empty."""


class ReadingAnswer(TypedDict):
    lacking: float
    """Nats by which the frontend's reading is less likely than the likeliest phones."""
    gains: list[float]
    """Nats by which each alternative reading is likelier than the frontend's."""


def question_of(utterance: Utterance, words: Sequence[Said], labels: Labels) -> Question | None:
    """Return the possible readings, or None if the text has no number or abbreviation."""
    spoken, language, others = [word for word, _ in words], utterance.language, dict[tuple[Said, ...], None]()
    if spoken != words_of(utterance.spoken or "") or not forms(utterance.text, spoken):
        return None
    for text in other_texts(utterance.text, language):
        others[labels.of_text(text, labels.spoken(text, language), language)] = None
    others.pop(tuple(words), None)
    return Question(utterance=utterance, words=tuple(words), others=tuple(others))


def with_reading(row: Audited, question: Question, answer: ReadingAnswer | None, doubt: float) -> Audited:
    """Set `Fault.READING` if a different reading is likely and the row has a score of at least `doubt`, or if the
    aligner's `answer` is certain."""
    if row.fault == Fault.OTHER_TEXT:
        return row
    chosen = choose(question, answer, [words_of(text) for text in row.heard.values()])
    if chosen is not None and (chosen[1] or row.score >= doubt):
        reading = heard_reading(question, chosen[0])
    elif row.score < doubt or not (found := doubtful_reading(question.utterance.text, row.words)):
        return row
    else:
        reading = found
    return replace(row, score=max(row.score, doubt), fault=Fault.READING, reading=reading)


def choose(question: Question, answer: ReadingAnswer | None, heard: Sequence[Sequence[str]]) -> tuple[int, bool] | None:
    """Return the index of a reading likelier than the frontend's, and whether it is certain; None if there is none.
    `heard` contains the words transcribed by each recogniser."""
    gains = answer["gains"] if answer else []
    if not question.others:
        return None
    if answer and max(gains) > max(CERTAIN, SHARE * answer["lacking"]):
        return int(np.argmax(gains)), True
    readings = [[word for word, _ in words] for words in (question.words, *question.others)]
    for understood in heard:
        own, *others = (Levenshtein.distance(reading, understood) for reading in readings)
        nearest = int(np.argmin(others))
        if others[nearest] < own and (not gains or gains[nearest] > 0):
            return nearest, False
    return None


def heard_reading(question: Question, other: int) -> Reading:
    """Return the number or abbreviation that differs in the reading with index `other`."""
    written = question.utterance.text
    own, heard = ([word for word, _ in words] for words in (question.words, question.others[other]))
    expected = {form.written: own[form.first : form.end] for form in forms(written, own)}
    for form in forms(written, heard):
        usual, words = expected.get(form.written, words_of(form.written)), heard[form.first : form.end]
        if words != usual:
            return Reading(written=form.written, expected=" ".join(usual), heard=" ".join(words))
    return Reading(written=written, expected=" ".join(own), heard=" ".join(heard))


def doubtful_reading(written: str, words: Sequence[AuditedWord]) -> Reading | None:
    """Return a number or abbreviation with doubtful words; None if other words are doubtful too."""
    spoken = [word.text for word in words]
    doubtful = [place for place, word in enumerate(words) if word.doubtful]
    found = [form for form in forms(written, spoken) if any(form.first <= place < form.end for place in doubtful)]
    if not doubtful or not all(any(form.first <= place < form.end for form in found) for place in doubtful):
        return None
    first = found[0]
    return Reading(written=first.written, expected=" ".join(spoken[first.first : first.end]), heard=None)


def weigh(logs_TL: Floats, words: Sequence[Said], others: Sequence[Sequence[Said]]) -> ReadingAnswer:
    emission_TL = logs_TL.astype(np.float64)
    readings = [[phone for _, word in reading for phone in word] for reading in (words, *others)]
    own, *gained = (prefix_scores(emission_TL, np.array(phones, dtype=np.int64))[-1, -1] for phones in readings)
    lacking = float(emission_TL.max(axis=1).sum() - own)
    return {"lacking": lacking, "gains": [float(other - own) for other in gained]}
