"""Test texts by language: short ones by kind, and generated sentences."""

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sonorant.evaluation.short_texts import english

SENTENCES = "sentences"
SHORT = "short"
CUT_WORDS, HELD_OUT = "cut_words", "held_out"
"""Kinds of text also checked on recordings: cut-out words and evaluated sentences."""
SEED = 1
_SLOT = re.compile(r"\{(\w+)\}")
_ARTICLE = re.compile(r"\b([Aa]) (?=[aeio])")


@dataclass(frozen=True)
class Text:
    kind: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Suite:
    kinds: Mapping[str, Sequence[str]]
    patterns: Sequence[str]
    """Sentences with slots, such as `{name} {went}.`"""
    slots: Mapping[str, Sequence[str]]

    def short_texts(self) -> list[Text]:
        return [Text(kind, text) for kind, texts in self.kinds.items() for text in texts]

    def sentences(self, count: int, seed: int = SEED) -> list[Text]:
        """Generate distinct sentences; a smaller count gives the first of the same sentences."""
        random_numbers = random.Random(seed)
        decks = {slot: _deck(words, random_numbers) for slot, words in self.slots.items()}
        patterns, found = _deck(self.patterns, random_numbers), dict[str, None]()
        while len(found) < count:
            filled = _SLOT.sub(lambda slot: next(decks[slot[1]]), next(patterns))
            correct = _ARTICLE.sub(r"\1n ", filled)
            found[correct[0].upper() + correct[1:]] = None
        return [Text(SENTENCES, text) for text in found]


def _deck(cards: Sequence[str], random_numbers: random.Random) -> Iterator[str]:
    """Yield cards endlessly, reshuffling the deck whenever it runs out, so that all are equally frequent."""
    while True:
        yield from random_numbers.sample(cards, len(cards))


SUITES = {"en": Suite(kinds=english.KINDS, patterns=english.PATTERNS, slots=english.SLOTS)}


def suite(language: str) -> Suite | str:
    """Return the test texts for a language such as en-us, or `not run: <why>`."""
    written = language.split("-")[0]
    return SUITES.get(written) or f"not run: there are no short texts in '{language}', only in {', '.join(SUITES)}"
