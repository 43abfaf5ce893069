"""The sound of an utterance: its part of its recording, conditioned as `prepare` planned."""

from pathlib import Path

import numpy as np

from sonorant.audio.conditioning import apply
from sonorant.audio.wav import read_audio, resample
from sonorant.data.manifest import Utterance


def read_sound(corpus: Path, utterance: Utterance, sample_rate: int | None = None) -> tuple[np.ndarray, int]:
    """Read the utterance as mono float32 (S,), full scale 1.0, and its rate in Hz; `sample_rate` (Hz) resamples.

    `corpus`: folder of the audio paths. Features, recognisers and raters all hear an utterance through this function,
    so they hear the same. An utterance that was not prepared is heard as recorded. Raises SonorantError naming a file
    that is absent or cannot be decoded.
    """
    samples, rate = read_audio(corpus / str(utterance.audio), start=utterance.start or 0.0, end=utterance.end)
    if utterance.conditioning is not None:
        samples = apply(samples, rate, utterance.conditioning)
    if sample_rate is None or sample_rate == rate:
        return samples, rate
    return resample(samples, rate, sample_rate), sample_rate
