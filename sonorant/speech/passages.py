"""What is spoken at once of a phrase, and what its marks ask of a family of voices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sonorant.audio.arrays import Integers
from sonorant.errors import SonorantError
from sonorant.speech.speaking import FASTEST, MOST_PITCH, SLOWEST, Manner, Marking, Speaking
from sonorant.text import SymbolTable
from sonorant.text.frontend import Phoneme, SpokenUnit
from sonorant.text.markup import MarkedText, Prosody
from sonorant.text.phrases import Phrase
from sonorant.text.written_words import WrittenWord

NO_MARKS: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Passage:
    """A phrase, or its part between two marked pauses where the family cannot hold one itself."""

    tokens_N3: Integers
    """Symbol, stress and word start; the first and the last token are start and end."""
    marking: Marking | None
    """None where nothing is marked."""
    pause: float | None
    """Seconds of silence marked after it, before the phrase goes on."""
    units: tuple[SpokenUnit, ...]
    """Its words and pauses: spans in the original text, `first` and `after` counted in tokens."""
    phonemes: tuple[Phoneme, ...]
    """Of all tokens but the first and the last."""
    words: tuple[WrittenWord, ...]
    """Its written words, where the phrase has them: spans in the original text, phonemes counted in `phonemes`."""


def marks_of(speaking: Speaking) -> frozenset[str]:
    """What the family can do within a phrase."""
    marks: frozenset[str] = getattr(speaking, "marks", NO_MARKS)
    return marks


def check_prosody(speaking: Speaking, manner: Manner, family: str, prosody: Prosody) -> None:
    """Raise SonorantError for speed and pitch of a run of text that the voice cannot have."""
    marks = marks_of(speaking)
    if prosody.rate != 1.0 and "rate" not in marks:
        raise SonorantError(f"this voice speaks at its own pace (family {family}): leave out the rate")
    if prosody.pitch and "pitch" not in marks:
        raise SonorantError(f"this voice chooses its melody itself (family {family}): leave out the pitch")
    if not SLOWEST <= (speed := prosody.rate * manner.speed) <= FASTEST:
        raise SonorantError(
            f"the rate makes the speed {speed:g}, with all around it; it must be {SLOWEST} to {FASTEST}"
        )
    if abs(pitch := prosody.pitch + manner.pitch) > MOST_PITCH:
        raise SonorantError(
            f"the pitch is {pitch:+.1f} semitones, with all around it; at most {MOST_PITCH:g} either way"
        )


def passages_of(phrase: Phrase, marked: MarkedText, symbols: SymbolTable, marks: frozenset[str]) -> Iterator[Passage]:
    """The passages of a phrase, none where nothing can be spoken. The spans of its units and words are places in the
    plain text of `marked`."""
    phonemes, units, words = phrase.spoken.phonemes, list(phrase.spoken.units), in_original(phrase.words, marked)
    while phonemes:
        count = next(
            (number for number, unit in enumerate(units, 1) if unit.seconds is not None and "pause" not in marks),
            len(units),
        )
        own, units = units[:count], units[count:]
        after = own[-1].after - own[0].first if own else len(phonemes)
        pause = own[-1].seconds if own and "pause" not in marks else None
        tokens = symbols.to_tokens(phonemes[:after])
        told = tuple(word for word in words if word.phonemes[0] < after)
        yield Passage(
            tokens, _marking(own, marked, len(tokens)), pause, _in_tokens(own, marked), phonemes[:after], told
        )
        phonemes, words = phonemes[after:], [word.moved(-after) for word in words[len(told) :]]


def in_original(words: Sequence[WrittenWord], marked: MarkedText) -> list[WrittenWord]:
    """Words with their spans in the original; those that stand for the same part of it are one."""
    found: list[WrittenWord] = []
    for word in words:
        first, last = marked.source(word.first, word.last)
        own = replace(word, first=first, last=last)
        if found and first < found[-1].last:
            before = found.pop()
            own = replace(
                before,
                text=f"{before.text} {word.text}",
                written=f"{before.written} {word.written}",
                last=max(before.last, last),
                phonemes=(before.phonemes[0], word.phonemes[1]),
            )
        found.append(own)
    return found


def _in_tokens(units: list[SpokenUnit], marked: MarkedText) -> tuple[SpokenUnit, ...]:
    before = units[0].first - 1 if units else 0
    found = []
    for unit in units:
        start, end = marked.source(unit.start, unit.end)
        found.append(replace(unit, start=start, end=end, first=unit.first - before, after=unit.after - before))
    return tuple(found)


def _marking(units: list[SpokenUnit], marked: MarkedText, tokens: int) -> Marking | None:
    prosody = [marked.prosody(unit.start) for unit in units]
    if all(found == Prosody() for found in prosody) and all(unit.seconds is None for unit in units):
        return None
    rate_N, pitch_N = np.ones(tokens, np.float32), np.zeros(tokens, np.float32)
    seconds_N = np.full(tokens, np.nan, np.float32)
    for unit, found in zip(units, prosody, strict=True):
        own = slice(1 + unit.first - units[0].first, 1 + unit.after - units[0].first)
        rate_N[own], pitch_N[own] = found.rate, found.pitch
        if unit.seconds is not None:
            seconds_N[own] = unit.seconds
    # Start and end are as what they are next to.
    for values_N in (rate_N, pitch_N):
        values_N[0], values_N[-1] = values_N[1], values_N[-2]
    return Marking(rate_N, pitch_N, seconds_N)
