from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile

from sonorant.audio.arrays import Floats

RATE = 16000
SENTENCES = (
    "The letter had been opened, read, folded and sealed again with great care.",
    "A clever clown climbed the clock tower.",
    "A cloud rolled in and hid the valley.",
    "The postcard shows a beach, a donkey and a striped tent.",
    "He keeps a jar of beetles on his desk.",
    "Our teacher lit the gas and the balloon went bang.",
    "They rehearsed the last scene again and again.",
    "Please make yourself at home.",
)
"""The demo's first prompts in another order."""


@dataclass(frozen=True)
class Part:
    """A sentence in a chapter, in seconds."""

    number: int
    start: float
    end: float


def write_chapter(path: Path, speech: Sequence[Floats], order: Sequence[int], pause: float = 0.6) -> list[Part]:
    """Write sentences in `order` with noisy pauses; return their places."""
    noise = np.random.default_rng(0)
    pieces, parts, written = [np.zeros(round(pause * RATE), np.float32)], [], round(pause * RATE)
    for number in order:
        start = written
        pieces += [speech[number], np.zeros(round(pause * RATE), np.float32)]
        written += len(speech[number]) + round(pause * RATE)
        parts.append(Part(number, start / RATE, start / RATE + len(speech[number]) / RATE))
    samples = np.concatenate(pieces)
    samples = samples + 0.0004 * noise.standard_normal(len(samples)).astype(np.float32)
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, samples, RATE)
    return parts
