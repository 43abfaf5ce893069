"""A text as it is read aloud: written tokens, their spoken words, and sentence ends."""

import re
from dataclasses import dataclass
from typing import Any

from rapidfuzz.distance import Levenshtein

from sonorant.errors import SonorantError
from sonorant.text import Frontend, load_frontend
from sonorant.text.written_words import plain_words

_ABBREVIATIONS = ("mr.", "mrs.", "ms.", "dr.", "st.", "prof.", "no.", "vs.", "jr.", "sr.")
_SENTENCE_END = re.compile(r"[.?!…][\"'”’»)\]]*$")
_CLAUSE_END = re.compile(r"[,;:–—-][\"'”’»)\]]*$")


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

    def begins(self, word: int) -> bool:
        return word in (0, len(self.words)) or self.units[word] != self.units[word - 1]

    def text(self, first: int, last: int) -> str:
        """Return the words [`first`, `last`) as written."""
        return " ".join(self.tokens[self.units[first][0] : self.units[last - 1][1]])


def read_script(text: str, language: str) -> Script:
    """Read a text. Numbers and abbreviations are spelt out if gruut supports the language."""
    tokens: list[str] = []
    words: list[str] = []
    units: list[tuple[int, int]] = []
    sentences, clauses = {0}, set[int]()
    frontend = _frontend(language)
    for paragraph in re.split(r"\n\s*\n", text):
        for own, spoken in _spoken(paragraph.split(), frontend):
            units += [(len(tokens), len(tokens) + len(own))] * len(spoken)
            tokens += own
            words += spoken
            if _SENTENCE_END.search(own[-1]) and own[-1].lower() not in _ABBREVIATIONS:
                sentences.add(len(words))
            if _CLAUSE_END.search(own[-1]):
                clauses.add(len(words))
        sentences.add(len(words))
    return Script(tuple(tokens), tuple(words), tuple(units), frozenset(sentences), frozenset(clauses))


def _frontend(language: str) -> Frontend | None:
    try:
        return load_frontend("gruut", language)
    except SonorantError:
        return None


def _spoken(tokens: list[str], frontend: Frontend | None) -> list[tuple[list[str], list[str]]]:
    """Return a paragraph's units, each with its tokens and spoken words."""
    written = [(place, word) for place, token in enumerate(tokens) for word in plain_words(token)]
    said = plain_words(frontend.speak(" ".join(tokens)).text) if frontend else [word for _, word in written]
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
