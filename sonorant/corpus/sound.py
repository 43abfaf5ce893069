"""Sound of an utterance: its part of the recording, conditioned."""

from functools import lru_cache
from pathlib import Path

import numpy as np

from sonorant.audio.conditioning import apply
from sonorant.audio.wav import read_audio, resample
from sonorant.corpus.manifest import Utterance
from sonorant.errors import SonorantError
from sonorant.files import sha256_file


def recording_of(corpus: Path, utterance: Utterance) -> Path:
    """Return the path of the utterance's audio file. Raises SonorantError if it was changed or removed after the
    manifest was written."""
    file = corpus / str(utterance.audio)
    if utterance.sha256 is None:
        return file
    try:
        found = file.stat()
        same = _hash(file, found.st_size, found.st_mtime_ns) == utterance.sha256
    except FileNotFoundError:
        raise SonorantError(f"{file}: no such audio file; if it was moved, run: dvc repro") from None
    except OSError as error:
        raise SonorantError(f"{file}: cannot be read ({error.strerror}); check its disk and permissions") from None
    if not same:
        raise SonorantError(f"{file}: edited after its corpus was imported; run: dvc repro")
    return file


@lru_cache(maxsize=2**14)
def _hash(file: Path, size: int, modified: int) -> str:
    return sha256_file(file)


def read_sound(corpus: Path, utterance: Utterance, sample_rate: int | None = None) -> tuple[np.ndarray, int]:
    """Return the utterance, conditioned as planned, as mono float32 (S,) with full scale 1.0, and its sample rate in
    Hz.

    Raises SonorantError if the file is missing, changed or cannot be decoded.
    """
    samples, rate = read_audio(recording_of(corpus, utterance), start=utterance.start or 0.0, end=utterance.end)
    if utterance.conditioning is not None:
        samples = apply(samples, rate, utterance.conditioning)
    sample_rate = sample_rate or rate
    return resample(samples, rate, sample_rate), sample_rate
