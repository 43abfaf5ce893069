"""Where in a long recording somebody speaks: stretches between pauses, found block by block."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sonorant.arrays import Floats
from sonorant.audio.speech import BLOCK_SECONDS, RATE, Pauses, Span, speech_probability, speech_spans
from sonorant.audio.wav import read_audio

PAUSE = 0.2
"""Seconds; a shorter pause parts no stretches."""
_BLOCK = 1875  # probabilities of a block: 60 s
_BEFORE = 100  # probabilities before a block, for the network to find its way
_LONGEST = 30.0  # seconds; a longer stretch is parted where speech is least likely


@dataclass(frozen=True)
class Block:
    """A part of a recording, by the numbers of its probabilities."""

    recording: Path
    first: int
    last: int


def blocks(recording: Path, seconds: float) -> list[Block]:
    """A recording of so many seconds in blocks."""
    count = int(np.ceil(seconds / BLOCK_SECONDS))
    return [Block(recording, first, min(first + _BLOCK, count)) for first in range(0, count, _BLOCK)]


def scan(block: Block) -> list[float]:
    """Probability that somebody speaks in each 32 ms of a block."""
    first = max(block.first - _BEFORE, 0)
    samples, _ = read_audio(block.recording, RATE, start=first * BLOCK_SECONDS, end=block.last * BLOCK_SECONDS)
    return speech_probability(samples, RATE)[block.first - first :].round(3).tolist()


def stretches(probability: Sequence[float]) -> list[Span]:
    """Stretches of speech in seconds, by rising time, from the probabilities of a whole recording."""
    values = np.array(probability, dtype=np.float32)
    return [part for span in speech_spans(values, Pauses(shortest_pause=PAUSE)) for part in _parted(span, values)]


def _parted(span: Span, values: Floats) -> list[Span]:
    start, end = span
    if end - start <= _LONGEST:
        return [span]
    low, high = round((start + _LONGEST / 2) / BLOCK_SECONDS), round((start + _LONGEST) / BLOCK_SECONDS)
    place = (low + int(np.argmin(values[low:high]))) * BLOCK_SECONDS
    return [(start, place), *_parted((place, end), values)]
