"""Plant faults in the clips of a corpus to train the judge: change the text, or cut the sound."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sonorant.corpus.audit.findings import Fault
from sonorant.corpus.audit.labels import Said

CUT_SECONDS = (0.12, 0.4)
"""Minimum and maximum seconds of speech to cut off."""


@dataclass(frozen=True)
class Planted:
    fault: Fault
    words: tuple[Said, ...]
    start: float = 0.0
    """Seconds of audio cut off at the start."""
    end: float = 0.0


def plant(
    words: Sequence[Said], speech: tuple[float, float], other: Sequence[Said], pool: Sequence[Said], seed: str
) -> Iterator[Planted]:
    """Yield one fault of each kind that is possible for `words`. `speech` contains the seconds of silence before and
    after the words, `other` the words of a different clip, and `pool` the words to insert."""
    chance, text = random.Random(seed), tuple(words)
    if [word for word, _ in other] != [word for word, _ in text]:
        yield Planted(Fault.OTHER_TEXT, tuple(other))
    yield Planted(Fault.MISSING_AT_START, (chance.choice(pool), *text))
    yield Planted(Fault.MISSING_AT_END, (*text, chance.choice(pool)))
    if len(text) > 1:
        yield Planted(Fault.ADDED_AT_START, text[1:])
        yield Planted(Fault.ADDED_AT_END, text[:-1])
        place = chance.randrange(1, len(text))
        yield Planted(Fault.MISSING_INSIDE, (*text[:place], chance.choice(pool), *text[place:]))
    if len(text) > 2:
        place = chance.randrange(1, len(text) - 1)
        yield Planted(Fault.ADDED_INSIDE, (*text[:place], *text[place + 1 :]))
        place = chance.randrange(len(text))
        other_word = chance.choice([word for word in pool if word != text[place]] or list(pool))
        yield Planted(Fault.OTHER_WORDS, (*text[:place], other_word, *text[place + 1 :]))
        yield Planted(Fault.CUT_AT_START, text, start=speech[0] + chance.uniform(*CUT_SECONDS))
        yield Planted(Fault.CUT_AT_END, text, end=speech[1] + chance.uniform(*CUT_SECONDS))
