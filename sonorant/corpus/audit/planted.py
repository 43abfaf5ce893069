"""Plant faults into a corpus' own clips to train the judge: change the text, or cut the sound."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sonorant.corpus.audit.findings import Fault
from sonorant.corpus.audit.labels import Said

CUT_SECONDS = (0.12, 0.4)
"""Minimum and maximum seconds of speech to cut."""


@dataclass(frozen=True, kw_only=True)
class Planted:
    """A clip with a planted fault."""

    fault: Fault
    words: tuple[Said, ...]
    start: float = 0.0
    """Seconds cut at the start."""
    end: float = 0.0
    """Seconds cut at the end."""


def plant(
    words: Sequence[Said], speech: tuple[float, float], other: Sequence[Said], pool: Sequence[Said], seed: str
) -> Iterator[Planted]:
    """One of each fault that fits into `words`. `speech`: seconds of silence before the first and after the last
    word; `other`: words of another clip; `pool`: words to add; `seed`: makes it deterministic."""
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
