"""A sound taken apart once, for every measure that compares it with another. `S` samples, `T` frames of 10 ms, `F`
bins of a spectrum, `N` points of the mel axis, `C` cepstral coefficients."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyworld
from numpy.typing import NDArray
from scipy.fft import dct

from sonorant.audio.arrays import Doubles

FRAME_MS = 10.0
ORDER = 24
"""Highest mel-cepstral coefficient compared; the 0th, loudness, is left out."""
MEL_POINTS = 128
"""Points of the envelope on the mel axis."""
SPEECH_DB = 50.0
"""Only frames at most this far below the loudest count as speech: silence has no spectrum worth comparing."""
QUIETEST = 1e-10
"""Floor of the power spectrum (full scale 1); digital silence would be minus infinity."""


@dataclass(frozen=True)
class Analysis:
    """Pitch and spectral envelope by WORLD (Morise et al. 2016: DIO with StoneMask, CheapTrick)."""

    samples: Doubles
    """(S,) in -1..1."""
    rate: int
    """Hz."""
    log_mel_TN: Doubles
    """Natural log of the amplitude's envelope."""
    cepstra_TC: Doubles
    f0: Doubles
    """Hz (T,), 0 where unvoiced."""
    level: Doubles
    """dB (T,), of the envelope's mean power."""

    @property
    def seconds(self) -> float:
        return len(self.samples) / self.rate

    @property
    def speech(self) -> NDArray[np.bool_]:
        """Frames (T,) that are no silence."""
        return np.asarray(self.level >= self.level.max() - SPEECH_DB)


def analyse(samples: NDArray[np.floating], rate: int) -> Analysis:
    """Take samples (S,) in -1..1 at `rate` Hz apart."""
    signal = np.ascontiguousarray(samples, dtype=np.float64)
    f0, times = track_pitch(signal, rate)
    power_TF = np.maximum(pyworld.cheaptrick(signal, f0, times, rate), QUIETEST)
    log_mel_TN = log_mel_envelope(power_TF, rate)
    return Analysis(
        samples=signal,
        rate=rate,
        log_mel_TN=log_mel_TN,
        cepstra_TC=mel_cepstra(log_mel_TN),
        f0=f0,
        level=10.0 * np.log10(power_TF.mean(axis=1)),
    )


def track_pitch(signal: Doubles, rate: int) -> tuple[Doubles, Doubles]:
    """Fundamental frequency in Hz, 0 where unvoiced, and time in seconds of each frame, (T,), of a signal (S,)."""
    rough, times = pyworld.dio(signal, rate, frame_period=FRAME_MS)
    return pyworld.stonemask(signal, rough, times, rate), times


def log_mel_envelope(power_TF: Doubles, rate: int) -> Doubles:
    """Power envelopes (T, F) over 0 to rate / 2 Hz -> natural log of amplitude on the mel axis (T, MEL_POINTS)."""
    return 0.5 * np.log(power_TF) @ _mel_interpolation(rate, power_TF.shape[1])


def mel_cepstra(log_mel_TN: Doubles) -> Doubles:
    """Coefficients 1 to `ORDER` of log-mel envelopes: (T, C), scaled as the distortion in dB expects: on the mel axis
    ln|H| is c_0 plus the sum of c_k cos(k w)."""
    return dct(log_mel_TN, axis=1)[:, 1 : ORDER + 1] / MEL_POINTS


@lru_cache
def _mel_interpolation(rate: int, bins: int) -> Doubles:
    """Matrix (bins, MEL_POINTS): a spectrum over Hz, read at the middles of equal mel steps (1127 ln(1 + f / 700))."""
    highest = 1127.0 * np.log1p(rate / 2 / 700.0)
    points = 700.0 * np.expm1((np.arange(MEL_POINTS) + 0.5) / MEL_POINTS * highest / 1127.0)
    frequencies = np.linspace(0.0, rate / 2, bins)
    return np.stack([np.interp(points, frequencies, unit) for unit in np.eye(bins)])
