"""Rewrite text while keeping the original position of each character, and join a frontend's words and pauses into the
spoken text."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import accumulate

from sonorant.text.frontend import PAUSES, GivenSounds, Phoneme, Sounds, SpokenText, SpokenUnit

Replacement = str | Callable[[re.Match[str]], str]
Rules = tuple[tuple[str, Replacement], ...]
"""Patterns and their replacements, in the order in which they are applied."""
Span = tuple[int, int]
"""Index of the first character and index after the last."""
_LOCAL_FIRST = 0xFF000
"""First private-use character for words of the lexicon and homographs; markup uses lower ones."""
_LOCAL = 0xFFE
"""Maximum number of lexicon words and homographs in a text; the frontend pronounces any others."""
_TOKEN = re.compile(r"\w+|[^\w\s]")


class TracedText:
    """Text with the span of each character in the original text. Methods return a new text."""

    __slots__ = ("spans", "text")

    def __init__(self, text: str, spans: Sequence[Span]) -> None:
        self.text = text
        self.spans = spans

    @classmethod
    def of(cls, text: str) -> TracedText:
        return cls(text, [(place, place + 1) for place in range(len(text))])

    def sub(self, pattern: re.Pattern[str], replacement: Replacement) -> TracedText:
        if pattern.search(self.text) is None:
            return self
        expand = replacement if callable(replacement) else _template(replacement)
        return self.replaced((match.start(), match.end(), expand(match)) for match in pattern.finditer(self.text))

    def replaced(self, pieces: Iterable[tuple[int, int, str]]) -> TracedText:
        """Replace pieces, given in order as (first, end, new text). Characters at the start and end of a piece that do
        not change keep their spans; the others get the span of all replaced characters."""
        texts: list[str] = []
        spans: list[Span] = []
        done = 0
        for first, end, new in pieces:
            texts += self.text[done:first], new
            spans += self.spans[done:first]
            old = self.text[first:end]
            same_start = _same(old, new)
            same_end = _same(old[same_start:][::-1], new[same_start:][::-1])
            between = self.span(first + same_start, end - same_end)
            spans += self.spans[first : first + same_start]
            spans += [between] * (len(new) - same_start - same_end)
            spans += self.spans[end - same_end : end]
            done = end
        return TracedText("".join((*texts, self.text[done:])), [*spans, *self.spans[done:]])

    def mapped(self, change: Callable[[str], str]) -> TracedText:
        changed = [change(character) for character in self.text]
        spans = [span for span, new in zip(self.spans, changed, strict=True) for _ in new]
        return TracedText("".join(changed), spans)

    def part(self, first: int, end: int) -> TracedText:
        return TracedText(self.text[first:end], self.spans[first:end])

    def strip_blanks(self) -> TracedText:
        """Leave one blank between words, none at the ends."""
        words = list(re.finditer(r"\S+", self.text))
        starts = list(accumulate((len(word[0]) + 1 for word in words), initial=0))[:-1]
        spans: list[Span] = []
        for word, start in zip(words, starts, strict=True):
            if start:
                spans.append(self.spans[word.start() - 1])
            spans += self.spans[word.start() : word.end()]
        return TracedText(" ".join(word[0] for word in words), spans)

    def span(self, first: int, end: int) -> Span:
        """Return the span of characters in the original text; an empty span is placed before `first`."""
        if first < end:
            return self.spans[first][0], max(span[1] for span in self.spans[first:end])
        place = self.spans[first][0] if first < len(self.spans) else self.spans[-1][1] if self.spans else 0
        return place, place


def _same(one: str, other: str) -> int:
    pairs = zip(one, other, strict=False)
    return next((number for number, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def _template(replacement: str) -> Callable[[re.Match[str]], str]:
    return (lambda match: match.expand(replacement)) if "\\" in replacement else (lambda _: replacement)


@dataclass(frozen=True, slots=True)
class Piece:
    """A word or a pause, before consecutive pauses are merged."""

    text: str
    span: Span
    """Span in the original text."""
    phonemes: tuple[Phoneme, ...]


def spoken_text(text: str, pieces: Iterable[Piece], unknown: tuple[str, ...]) -> SpokenText:
    """Join pieces, dropping leading pauses and keeping only the strongest of consecutive pauses (the first, if equally
    strong)."""
    phonemes: list[Phoneme] = []
    units: list[SpokenUnit] = []
    for piece in pieces:
        if not piece.phonemes:
            continue
        first = len(phonemes)
        if piece.phonemes[0].symbol in PAUSES:
            if not phonemes:
                continue
            if phonemes[-1].symbol in PAUSES:
                if phonemes[-1].symbol != "," or piece.phonemes[0].symbol == ",":
                    continue
                phonemes.pop()
                units.pop()
                first -= 1
        phonemes += piece.phonemes
        units.append(SpokenUnit(piece.text, *piece.span, first, len(phonemes)))
    return SpokenText(text, tuple(phonemes), unknown, tuple(units))


def audible_sentences(parts: Iterable[tuple[str, Iterable[Piece]]], unknown: tuple[str, ...]) -> list[SpokenText]:
    """Join (text, pieces) into sentences and drop silent ones; the first sentence lists the `unknown` characters."""
    joined = [spoken_text(spoken, part, ()) for spoken, part in parts]
    audible = [sentence for sentence in joined if sentence.phonemes]
    return [dataclasses.replace(audible[0], unknown=unknown), *audible[1:]] if audible else []


def placed(words: Sequence[str], text: TracedText) -> list[Span]:
    """Return the span of each of `words`, in order, in the original of `text`. A word that is not in `text`, such as a
    word of a number, gets the span between its neighbours. Words are aligned together, because a word of an
    abbreviation may recur."""
    found = _whole_words(words, text.text)
    place = 0
    for number, word in enumerate(words):
        if found[number] is None and word:  # a letter of an abbreviation, a part of a compound
            before = next((later[0] for later in found[number:] if later), len(text.text))
            at = text.text.find(word, place, before)
            found[number] = (at, at + len(word)) if at >= 0 else None
        place = (found[number] or (place, place))[1]
    spans: list[Span] = []
    end = 0
    for number, span in enumerate(found):
        if span is None:
            start = next((later[0] for later in found[number:] if later), len(text.text))
            between = text.text[end:start]
            span = (
                (end + len(between) - len(between.lstrip()), end + len(between.rstrip()))
                if between.strip()
                else (end, end)
            )
        else:
            end = span[1]
        spans.append(text.span(*span))
    return spans


def _whole_words(words: Sequence[str], text: str) -> list[Span | None]:
    tokens = list(_TOKEN.finditer(text))
    wanted = [(number, token) for number, word in enumerate(words) for token in _TOKEN.findall(word)]
    matcher = SequenceMatcher(None, [token for _, token in wanted], [token[0] for token in tokens], autojunk=False)
    there: list[list[Span]] = [[] for _ in words]
    for first, at, size in matcher.get_matching_blocks():
        for (number, _), token in zip(wanted[first : first + size], tokens[at : at + size], strict=True):
            there[number].append(token.span())
    counts = Counter(number for number, _ in wanted)
    return [
        (spans[0][0], spans[-1][1]) if spans and len(spans) == counts[number] else None
        for number, spans in enumerate(there)
    ]


def given_in(text: str, given: GivenSounds) -> dict[str, Sounds]:
    if text.isascii() or not given:
        return {}
    return {character: given[character] for character in text if character in given}


def with_given(text: TracedText, found: Iterable[tuple[int, int, Sounds]], sounds: dict[str, Sounds]) -> TracedText:
    """Replace each word whose sounds are given with a private-use character, and store the sounds in `sounds` under
    it."""
    pieces = []
    for first, end, sound in found:
        if len(sounds) >= _LOCAL:
            break
        character = chr(_LOCAL_FIRST + len(sounds))
        sounds[character] = sound
        pieces.append((first, end, character))
    return text.replaced(pieces) if pieces else text
