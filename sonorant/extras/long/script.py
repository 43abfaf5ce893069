"""A text as it is read aloud: written tokens, their spoken words, and sentence ends."""

import re
from collections.abc import Container
from dataclasses import dataclass
from itertools import accumulate, compress
from typing import Any

from rapidfuzz.distance import Levenshtein

from sonorant.errors import SonorantError
from sonorant.text import Frontend, load_frontend
from sonorant.text.written_words import plain_words

_ABBREVIATIONS = ("mr.", "mrs.", "ms.", "dr.", "st.", "prof.", "no.", "vs.", "jr.", "sr.")
_SENTENCE_END = re.compile(r"[.?!…][\"'”’»)\]]*$")
_CLAUSE_END = re.compile(r"[,;:–—-][\"'”’»)\]]*$")
_CUE = re.compile(r"\s*^(?:\d+[ \t]*\n)?(?:\d+:)?\d+:\d+[.,]\d+[ \t]*-->.*$", re.MULTILINE)
_CUE_MARKUP = re.compile(r"\AWEBVTT.*|</?[a-z][^>\n]*>|\{\\[^}\n]*\}")
_LINE_END = re.compile(r"([^\W\d_]+)-[ \t]*\n[ \t]*([^\W\d_]+)")
_ASIDE = re.compile(
    r"""
    ^[ \t]*[-–—(\[]?[ \t]*(?:\d{1,4}|[ivxlc]{1,7}|[IVXLC]{1,7})[ \t]*[-–—)\]]?[ \t]*$  # page number
    | ^[ \t]*(?:\[[\d:.,]+\][ \t]+)?(?P<speaker>[A-ZÀ-Þ][\w.'’-]*(?:[ ][A-ZÀ-Þ0-9][\w.'’-]*){0,2}:)(?=\s)  # speaker
    | \[(?:[\d:.,]{1,12}|[a-z*†‡])\]  # footnote mark or time
    | (?:(?<=[^\W\d_]{3}[.,;:!?])|(?<=[.,;:!?][”’"')]))(?:\d{1,3}(?=\s)|[¹²³⁰⁴-⁹]+)
    | (?<=[^\W\d_]{4})[¹²³⁰⁴-⁹]+
    """,
    re.MULTILINE | re.VERBOSE,
)
_TITLE = 2  # maximum tokens of a title; where more words are missing, the recording is cut
_MARK = "\ue000"  # precedes each token of an aside
_TOKEN = re.compile(r"(?<!\S)(?=\S)")


@dataclass(frozen=True)
class Script:
    tokens: tuple[str, ...]
    """Written tokens, separated by white space."""
    words: tuple[str, ...]
    """Spoken words in lower case."""
    units: tuple[tuple[int, int], ...]
    """Range of tokens [first, last) of each word's unit, which is never divided: "1984" is one unit of three words."""
    sentence_ends: frozenset[int]
    """Indices of words that start a sentence or paragraph, and the total number of words."""
    clause_ends: frozenset[int]
    """Indices of words that follow a comma or a similar mark."""
    asides: tuple[range, ...] = ()
    """Words that readers often leave out: page numbers, footnote marks, titles, and names of speakers."""

    def without(self, words: Container[int]) -> "Script":
        """Return the script without these words, which must be whole units."""
        kept = [word not in words for word in range(len(self.words))]
        before = list(accumulate(kept, initial=0))
        silent = {token for word, own in enumerate(self.units) if not kept[word] for token in range(*own)}
        return Script(
            tuple("" if token in silent else written for token, written in enumerate(self.tokens)),
            tuple(compress(self.words, kept)),
            tuple(compress(self.units, kept)),
            frozenset(before[word] for word in self.sentence_ends),
            frozenset(before[word] for word in self.clause_ends),
        )

    def begins(self, word: int) -> bool:
        return word in (0, len(self.words)) or self.units[word] != self.units[word - 1]

    def text(self, first: int, last: int) -> str:
        """Return the words [`first`, `last`) as written."""
        return " ".join(filter(None, self.tokens[self.units[first][0] : self.units[last - 1][1]]))


def read_script(text: str, language: str) -> Script:
    """Read a text. Numbers and abbreviations are spelt out if gruut supports the language; a word divided at a line's
    end is joined."""
    tokens: list[str] = []
    words: list[str] = []
    units: list[tuple[int, int]] = []
    asides: list[range] = []
    sentences, clauses = {0}, set[int]()
    frontend = _frontend(language)
    text = _LINE_END.sub(lambda found: _joined(found, frontend), re.sub(r"\u00ad[ \t]*\n?[ \t]*", "", text))
    for paragraph in re.split(r"\n\s*\n", _ASIDE.sub(lambda found: _marked(found, text), text)):
        marked, begun = paragraph.split(), len(words)
        title = len(marked) <= _TITLE and not _SENTENCE_END.search(paragraph.strip())
        for own, spoken in _spoken(marked, frontend):
            if spoken and (title or all(token.startswith(_MARK) for token in own)):
                joined = asides and asides[-1].stop == len(words) > begun
                asides.append(range(asides.pop().start if joined else len(words), len(words) + len(spoken)))
            own = [token.removeprefix(_MARK) for token in own]
            units += [(len(tokens), len(tokens) + len(own))] * len(spoken)
            tokens += own
            words += spoken
            if _SENTENCE_END.search(own[-1]) and own[-1].lower() not in _ABBREVIATIONS:
                sentences.add(len(words))
            if _CLAUSE_END.search(own[-1]):
                clauses.add(len(words))
        sentences.add(len(words))
    return Script(tuple(tokens), tuple(words), tuple(units), frozenset(sentences), frozenset(clauses), tuple(asides))


def without_cues(text: str) -> str:
    """Return the text of subtitles (SubRip, WebVTT) without times and markup; any other text is unchanged."""
    return _CUE_MARKUP.sub("", _CUE.sub("", text)) if _CUE.search(text) else text


def _marked(found: re.Match[str], text: str) -> str:
    name = found["speaker"]
    if name and not name.isupper() and text.count(name) < 2:
        return found[0]
    return f" {_TOKEN.sub(_MARK, found[0] if name else ''.join(found[0].split()))} "


def _joined(found: re.Match[str], frontend: Frontend | None) -> str:
    """Return a word without its hyphen, unless only its halves are words of the language, as in well-known."""
    first, second = found.groups()
    knows = getattr(frontend, "knows", lambda word: False)
    halves = second.istitle() or (knows(first) and knows(second) and not knows(first + second))
    return first + "-" * halves + second


def _frontend(language: str) -> Frontend | None:
    try:
        return load_frontend("gruut", language)
    except SonorantError:
        return None


def _spoken(tokens: list[str], frontend: Frontend | None) -> list[tuple[list[str], list[str]]]:
    """Return a paragraph's units, each with its tokens and spoken words."""
    written = [(place, word) for place, token in enumerate(tokens) for word in plain_words(token)]
    line = " ".join(tokens).replace(_MARK, "")
    line = line.lower() if line.isupper() else line  # gruut spells words in capitals
    said = plain_words(frontend.speak(line).text) if frontend else [word for _, word in written]
    # One unit per token, except where written and spoken words differ.
    unit_of = list(range(len(tokens)))
    spoken: list[list[str]] = [[] for _ in tokens]
    for equal, first, last, start, end in _steps([word for _, word in written], said):
        if equal:
            for (place, _), word in zip(written[first:last], said[start:end], strict=True):
                spoken[place].append(word)
        elif written:
            places = [place for place, _ in written[first:last]] or [written[max(first - 1, 0)][0]]
            unit_of[places[0] : places[-1] + 1] = [unit_of[places[0]]] * (places[-1] + 1 - places[0])
            spoken[unit_of[places[0]]] += said[start:end]
    units: list[tuple[list[str], list[str]]] = []
    for place, token in enumerate(tokens):
        joined = place > 0 and (unit_of[place] == unit_of[place - 1] or not spoken[place])
        if joined and units:
            units[-1][0].append(token)
            units[-1][1].extend(spoken[place])
        else:
            units.append(([token], list(spoken[place])))
    return units


def _steps(written: list[str], said: list[str]) -> list[tuple[bool, int, int, int, int]]:
    """Return spans of written and spoken words that are alternately equal and different, as (equal, first, last, start,
    end)."""
    steps: list[tuple[bool, int, int, int, int]] = []
    opcodes: list[Any] = Levenshtein.opcodes(written, said).as_list()
    for tag, first, last, start, end in opcodes:
        equal = tag == "equal"
        if steps and not equal and not steps[-1][0]:
            _, first, _, start, _ = steps.pop()
        steps.append((equal, first, last, start, end))
    return steps
