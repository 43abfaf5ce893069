from pathlib import Path

import numpy as np
import pytest
from scipy.signal import fftconvolve

from sonorant.audio.arrays import Floats
from sonorant.audio.wav import read_audio
from tests.evaluation.conftest import speak_with_flite

RATE = 16_000
SENTENCES = (
    "This is the house of my aunt Bess.",
    "He began to laugh.",
    "She ran off with half a loaf.",
    "How far is the path to the south?",
    "Hens lay eggs, and fish swim in the sea.",
    "Stop at the top of the step.",
)
"""They start and end with weak sounds, which are cut first."""


@pytest.fixture(scope="session")
def spoken(tmp_path_factory: pytest.TempPathFactory) -> list[Floats]:
    """One float32 array (S,) at `RATE` per sentence, with flite's silence."""
    folder = tmp_path_factory.mktemp("spoken")
    for number, sentence in enumerate(SENTENCES):
        speak_with_flite(sentence, folder / f"{number}.wav", "slt" if number % 2 else "rms")
    return [read_audio(Path(folder / f"{number}.wav"), RATE)[0] for number in range(len(SENTENCES))]


def noisy(samples: Floats, level_db: float | None, seed: int = 0) -> Floats:
    """Add white noise with an RMS of `level_db` dBFS; None adds none."""
    if level_db is None:
        return samples
    noise = np.random.default_rng(seed).standard_normal(len(samples)) * 10 ** (level_db / 20)
    return (samples + noise).astype(np.float32)


def in_room(samples: Floats, rate: int, seconds: float, seed: int = 0) -> Floats:
    """Convolve with noise that decays by 60 dB in `seconds`, as loud as the direct sound."""
    if not seconds:
        return samples
    count = round(1.2 * seconds * rate)
    tail = np.random.default_rng(seed).standard_normal(count) * 10 ** (-3 * np.arange(count) / rate / seconds)
    tail[: rate // 500] = 0
    tail /= np.sqrt(np.square(tail).sum())
    tail[0] = 1
    return fftconvolve(samples, tail)[: len(samples) + rate // 4].astype(np.float32)
