"""Find stretches of speech in a long recording, block by block."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sonorant.audio.arrays import Floats
from sonorant.audio.voice_activity import BLOCK_SECONDS, RATE, Span, speech_probability, speech_spans
from sonorant.audio.wav import read_audio

PAUSE = 0.2
"""Minimum pause in seconds between stretches."""
_BLOCK = 1875  # probabilities per block: 60 s
_BEFORE = 100  # probabilities before a block, to initialise the network
_LONGEST = 30.0  # seconds; longer stretches are split where speech is least likely
_CERTAIN, _REACH = 0.8, 0.3  # minimum probability of certain speech, and maximum seconds that an edge moves


@dataclass(frozen=True)
class ScanBlock:
    """Part of a recording, as a range [first, last) of speech probabilities."""

    recording: Path
    first: int
    last: int


def blocks(recording: Path, seconds: float) -> list[ScanBlock]:
    count = int(np.ceil(seconds / BLOCK_SECONDS))
    return [ScanBlock(recording, first, min(first + _BLOCK, count)) for first in range(0, count, _BLOCK)]


def scan(block: ScanBlock) -> list[float]:
    """Return the probability of speech in each 32 ms of a block."""
    first = max(block.first - _BEFORE, 0)
    samples, _ = read_audio(block.recording, RATE, start=first * BLOCK_SECONDS, end=block.last * BLOCK_SECONDS)
    return speech_probability(samples, RATE)[block.first - first :].round(3).tolist()


def stretches(probability: Floats) -> list[Span]:
    """Return stretches of speech in seconds, in order, from the probabilities (F,) of a recording."""
    spans = speech_spans(probability, PAUSE)
    return [part for span in spans for part in _parted(span, probability)]


def widen(start: float, end: float, earliest: float, latest: float, probability: Floats) -> Span:
    """Extend a word while speech is very likely, up to `earliest` and `latest`. Recognisers are late at soft onsets and
    early at final fricatives."""
    first, last = int(start / BLOCK_SECONDS), int(end / BLOCK_SECONDS)
    while first > 0 and first * BLOCK_SECONDS > max(start - _REACH, earliest) and probability[first] >= _CERTAIN:
        start, first = first * BLOCK_SECONDS, first - 1
    while last < len(probability) and (last + 1) * BLOCK_SECONDS < min(end + _REACH, latest):
        if probability[last] < _CERTAIN:
            break
        end, last = (last + 1) * BLOCK_SECONDS, last + 1
    return start, end


def _parted(span: Span, values: Floats) -> list[Span]:
    start, end = span
    if end - start <= _LONGEST:
        return [span]
    low, high = round((start + _LONGEST / 2) / BLOCK_SECONDS), round((start + _LONGEST) / BLOCK_SECONDS)
    place = (low + int(np.argmin(values[low:high]))) * BLOCK_SECONDS
    return [(start, place), *_parted((place, end), values)]
