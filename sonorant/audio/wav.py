"""Read recordings as mono float32; write 16-bit WAV."""

import struct
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sonorant.audio.channels import mix
from sonorant.audio.decoding import decode
from sonorant.errors import SonorantError
from sonorant.files import atomic_file


def read_audio(
    path: Path, sample_rate: int | None = None, *, start: float = 0.0, end: float | None = None
) -> tuple[np.ndarray, int]:
    """Decode a recording, mix it to mono (S,) without dead channels, and resample it to `sample_rate` Hz. Return
    samples and rate."""
    samples, rate = decode(path, start, end)
    sample_rate = sample_rate or rate
    return resample(mix(samples), rate, sample_rate), sample_rate


def resample(samples: np.ndarray, rate: int, new_rate: int) -> np.ndarray:
    """Resample float32 (S,) to float32 (round(S * new_rate / rate),) with soxr at high quality."""
    if rate == new_rate:
        return samples.astype(np.float32, copy=False)
    import soxr  # not a dependency of synthesis

    return soxr.resample(samples, rate, new_rate).astype(np.float32, copy=False)


def write_wav(path: Path, samples: np.ndarray, rate: int) -> None:
    """Write mono samples (S,), full scale 1.0, as a 16-bit WAV, atomically, clipped at full scale. Raises
    SonorantError if the samples are not one-dimensional or not finite."""
    if samples.ndim != 1:
        raise SonorantError(f"{path}: expected mono samples of shape (S,), not {samples.shape}")
    if not np.isfinite(samples).all():
        raise SonorantError(f"{path}: not written, because the samples contain NaN or infinity; check their source")
    with atomic_file(path.resolve()) as temporary:
        temporary.write_bytes(wav_header(rate, len(samples)) + pcm16(samples).tobytes())


def pcm16(samples: np.ndarray) -> NDArray[np.int16]:
    """Convert samples (S,), full scale 1.0, to little-endian int16, clipped."""
    return np.clip(np.rint(np.asarray(samples, dtype=np.float64) * 32768.0), -32768, 32767).astype("<i2")


def wav_header(rate: int, samples: int | None) -> bytes:
    """Return the header of a mono 16-bit WAV. If the number of samples is unknown (None) or exceeds 4 GiB, it contains
    the maximum size, which players read as "until the end"."""
    size = 0xFFFFFFFF if samples is None else min(2 * samples + 36, 0xFFFFFFFF)
    form = struct.pack("<4sI4s4sIHHIIHH", b"RIFF", size, b"WAVE", b"fmt ", 16, 1, 1, rate, 2 * rate, 2, 16)
    return form + struct.pack("<4sI", b"data", size if size == 0xFFFFFFFF else size - 36)
