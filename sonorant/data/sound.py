"""The sound of an utterance: its part of its recording."""

from pathlib import Path

import numpy as np

from sonorant.audio.wav import read_audio
from sonorant.data.manifest import Utterance


def read_sound(corpus: Path, utterance: Utterance, sample_rate: int | None = None) -> tuple[np.ndarray, int]:
    """Read the utterance as mono float32 (S,), full scale 1.0, and its rate in Hz; `sample_rate` (Hz) resamples.

    `corpus`: folder of the audio paths. Features, recognisers and raters all hear an utterance through this function.
    Raises SonorantError naming a file that is absent or cannot be decoded.
    """
    return read_audio(corpus / str(utterance.audio), sample_rate, start=utterance.start or 0.0, end=utterance.end)
