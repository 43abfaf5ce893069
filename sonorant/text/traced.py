"""A text that is rewritten and still knows where each of its characters stood in the original."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate

Replacement = str | Callable[[re.Match[str]], str]
Rules = tuple[tuple[str, Replacement], ...]
"""Patterns, and what replaces them, in the order in which they run."""
Span = tuple[int, int]
"""First character, and the one after the last."""


class TracedText:
    """Characters, each with its span in the original. Every method returns a new text."""

    __slots__ = ("spans", "text")

    def __init__(self, text: str, spans: Sequence[Span]) -> None:
        self.text = text
        self.spans = spans

    @classmethod
    def of(cls, text: str) -> TracedText:
        """The original itself."""
        return cls(text, [(place, place + 1) for place in range(len(text))])

    def sub(self, pattern: re.Pattern[str], replacement: Replacement) -> TracedText:
        """As `re.sub`; what replaces a match stands for the whole of it."""
        if pattern.search(self.text) is None:
            return self
        expand = replacement if callable(replacement) else _template(replacement)
        return self.replaced((match.start(), match.end(), expand(match)) for match in pattern.finditer(self.text))

    def replaced(self, pieces: Iterable[tuple[int, int, str]]) -> TracedText:
        """With other text in place of some pieces, (first, end, new text) in order. Where the new text begins or ends
        as the old one did, those characters keep their spans; the rest stands for all that lay between."""
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
        """With each character changed on its own, perhaps into several or none."""
        changed = [change(character) for character in self.text]
        spans = [span for span, new in zip(self.spans, changed, strict=True) for _ in new]
        return TracedText("".join(changed), spans)

    def part(self, first: int, end: int) -> TracedText:
        """The characters from `first` to before `end`."""
        return TracedText(self.text[first:end], self.spans[first:end])

    def strip_blanks(self) -> TracedText:
        """With one blank between words and none at the edges."""
        words = list(re.finditer(r"\S+", self.text))
        starts = list(accumulate((len(word[0]) + 1 for word in words), initial=0))[:-1]
        spans: list[Span] = []
        for word, start in zip(words, starts, strict=True):
            if start:
                spans.append(self.spans[word.start() - 1])
            spans += self.spans[word.start() : word.end()]
        return TracedText(" ".join(word[0] for word in words), spans)

    def span(self, first: int, end: int) -> Span:
        """Where the characters from `first` to before `end` stood; an empty span lies before `first`."""
        if first < end:
            return self.spans[first][0], max(span[1] for span in self.spans[first:end])
        place = self.spans[first][0] if first < len(self.spans) else self.spans[-1][1] if self.spans else 0
        return place, place


def _same(one: str, other: str) -> int:
    """How many characters both begin with."""
    pairs = zip(one, other, strict=False)
    return next((number for number, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def _template(replacement: str) -> Callable[[re.Match[str]], str]:
    return (lambda match: match.expand(replacement)) if "\\" in replacement else (lambda _: replacement)
