"""The texts that a voice is tried on: short ones by kind, and any number of plain sentences, by language."""

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sonorant.evaluation.short_texts import english

SENTENCES = "sentences"
"""The kind of the plain sentences."""
SHORT = "short"
"""All short texts together."""
CUT_WORDS, HELD_OUT = "cut_words", "held_out"
"""What recordings say too: words cut out of them, and the judged sentences."""
SEED = 1
_SLOT = re.compile(r"\{(\w+)\}")
_ARTICLE = re.compile(r"\b([Aa]) (?=[aeio])")


@dataclass(frozen=True)
class Text:
    """Something to be said."""

    kind: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Suite:
    """What there is in one language."""

    kinds: Mapping[str, Sequence[str]]
    """Short texts by kind."""
    patterns: Sequence[str]
    """Sentences with slots, such as `{name} {went}.`"""
    slots: Mapping[str, Sequence[str]]
    """What may stand in each slot."""

    def short_texts(self) -> list[Text]:
        """Every short text, kind by kind."""
        return [Text(kind, text) for kind, texts in self.kinds.items() for text in texts]

    def sentences(self, count: int, seed: int = SEED) -> list[Text]:
        """Sentences, all different, the same for the same seed; the first of 1,000 are those of 10."""
        random_numbers = random.Random(seed)
        decks = {slot: _deck(words, random_numbers) for slot, words in self.slots.items()}
        patterns, found = _deck(self.patterns, random_numbers), dict[str, None]()
        while len(found) < count:
            filled = _SLOT.sub(lambda slot: next(decks[slot[1]]), next(patterns))
            correct = _ARTICLE.sub(r"\1n ", filled)
            found[correct[0].upper() + correct[1:]] = None
        return [Text(SENTENCES, text) for text in found]


def _deck(cards: Sequence[str], random_numbers: random.Random) -> Iterator[str]:
    """Every card once in random order, then all again in another: rare words come as often as common ones."""
    while True:
        yield from random_numbers.sample(cards, len(cards))


SUITES = {"en": Suite(kinds=english.KINDS, patterns=english.PATTERNS, slots=english.SLOTS)}
"""By language, without its region."""


def suite(language: str) -> Suite | str:
    """The texts of a language such as en-us, or `not run: <why>` where nobody wrote any."""
    written = language.split("-")[0]
    return SUITES.get(written) or f"not run: there are no short texts in '{language}', only in {', '.join(SUITES)}"
