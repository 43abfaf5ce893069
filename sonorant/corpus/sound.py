"""The sound of an utterance: its part of its recording, conditioned as `prepare` planned."""

from functools import lru_cache
from pathlib import Path

import numpy as np

from sonorant.audio.conditioning import apply
from sonorant.audio.wav import read_audio, resample
from sonorant.corpus.manifest import Utterance
from sonorant.errors import SonorantError
from sonorant.files import sha256_file


def recording_of(corpus: Path, utterance: Utterance) -> Path:
    """The utterance's audio file. `corpus`: folder of the manifest.

    Recordings lie where their owner works on them. Raises SonorantError if the manifest has a hash and the file is
    another by now, or gone: what is computed from it would be kept under the wrong name.
    """
    file = corpus / str(utterance.audio)
    if utterance.sha256 is None:
        return file
    try:
        found = file.stat()
        same = _hash(file, found.st_size, found.st_mtime_ns) == utterance.sha256
    except FileNotFoundError:
        raise SonorantError(f"{file}: no such audio file; was it moved? run: dvc repro") from None
    except OSError as error:
        raise SonorantError(f"{file}: cannot be read ({error.strerror}); look at its disk and permissions") from None
    if not same:
        raise SonorantError(f"{file}: edited since its corpus was read; run: dvc repro")
    return file


@lru_cache(maxsize=2**14)
def _hash(file: Path, size: int, modified: int) -> str:
    """Of a long recording, which many utterances are parts of, only once. They come in no order, a shard draws from all
    recordings, so many are remembered: a path and 64 digits each."""
    return sha256_file(file)


def read_sound(corpus: Path, utterance: Utterance, sample_rate: int | None = None) -> tuple[np.ndarray, int]:
    """Read the utterance as mono float32 (S,), full scale 1.0, and its rate in Hz; `sample_rate` (Hz) resamples.

    `corpus`: folder of the audio paths. Features, recognisers and raters all hear an utterance through this function,
    so they hear the same. An utterance that was not prepared is heard as recorded. Raises SonorantError naming a file
    that is absent, edited since or cannot be decoded.
    """
    samples, rate = read_audio(recording_of(corpus, utterance), start=utterance.start or 0.0, end=utterance.end)
    if utterance.conditioning is not None:
        samples = apply(samples, rate, utterance.conditioning)
    if sample_rate is None or sample_rate == rate:
        return samples, rate
    return resample(samples, rate, sample_rate), sample_rate
