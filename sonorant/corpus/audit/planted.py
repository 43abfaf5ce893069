"""Faults planted into a corpus' own clips, by which the judge learns what a fault of that corpus looks like.

A text is changed while the sound stays, or the sound is cut while the text stays; most clips of a corpus are right, so
most planted faults are what they are called.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sonorant.corpus.audit.findings import Fault

Said = tuple[str, tuple[int, ...]]
"""A word as it is written, and its phones as labels."""
CUT_SECONDS = (0.12, 0.4)
"""Least and most speech that a planted cut takes away."""


@dataclass(frozen=True, kw_only=True)
class Planted:
    """A clip made wrong on purpose."""

    fault: Fault
    words: tuple[Said, ...]
    start: float = 0.0
    """Seconds that are cut off the clip's start."""
    end: float = 0.0
    """Seconds that are cut off its end."""


def plant(
    words: Sequence[Said], speech: tuple[float, float], other: Sequence[Said], pool: Sequence[Said], seed: str
) -> Iterator[Planted]:
    """One of each fault that the text of `words` has room for.

    `speech`: seconds of silence before the first word and after the last; `other`: the words of another clip; `pool`:
    words to add; the same `seed` gives the same faults.
    """
    chance, text = random.Random(seed), tuple(words)
    if [word for word, _ in other] != [word for word, _ in text]:
        yield Planted(fault=Fault.OTHER_TEXT, words=tuple(other))
    yield Planted(fault=Fault.MISSING_AT_START, words=(chance.choice(pool), *text))
    yield Planted(fault=Fault.MISSING_AT_END, words=(*text, chance.choice(pool)))
    if len(text) > 1:
        yield Planted(fault=Fault.ADDED_AT_START, words=text[1:])
        yield Planted(fault=Fault.ADDED_AT_END, words=text[:-1])
        place = chance.randrange(1, len(text))
        yield Planted(fault=Fault.MISSING_INSIDE, words=(*text[:place], chance.choice(pool), *text[place:]))
    if len(text) > 2:
        place = chance.randrange(1, len(text) - 1)
        yield Planted(fault=Fault.ADDED_INSIDE, words=(*text[:place], *text[place + 1 :]))
        place = chance.randrange(len(text))
        other_word = chance.choice([word for word in pool if word != text[place]] or list(pool))
        yield Planted(fault=Fault.OTHER_WORDS, words=(*text[:place], other_word, *text[place + 1 :]))
        yield Planted(fault=Fault.CUT_AT_START, words=text, start=speech[0] + chance.uniform(*CUT_SECONDS))
        yield Planted(fault=Fault.CUT_AT_END, words=text, end=speech[1] + chance.uniform(*CUT_SECONDS))
