"""Pitch and spectral envelope of a sound, computed once for all metrics. `S` samples, `T` 10 ms frames, `F` bins, `N`
mel points, `C` cepstral coefficients."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyworld
from numpy.typing import NDArray
from scipy.fft import dct

from sonorant.audio.arrays import Doubles

FRAME_MS = 10.0
ORDER = 24
"""Number of mel-cepstral coefficients, not counting the 0th."""
MEL_POINTS = 128
SPEECH_DB = 50.0
"""Frames more than this many dB below the loudest are silence."""
QUIETEST = 1e-10
"""Minimum of the power spectrum; full scale is 1."""


@dataclass(frozen=True)
class Analysis:
    """WORLD analysis (Morise et al. 2016) with DIO, StoneMask and CheapTrick."""

    samples: Doubles
    """Samples (S,) in -1..1."""
    rate: int
    log_mel_TN: Doubles
    """Natural log of the amplitude envelope."""
    cepstra_TC: Doubles
    f0: Doubles
    """Pitch (T,) in Hz; 0 where unvoiced."""
    level: Doubles
    """Mean envelope power (T,) in dB."""

    @property
    def seconds(self) -> float:
        return len(self.samples) / self.rate

    @property
    def speech(self) -> NDArray[np.bool_]:
        """Mask (T,) of frames that are not silence."""
        return np.asarray(self.level >= self.level.max() - SPEECH_DB)


def analyse(samples: NDArray[np.floating], rate: int) -> Analysis:
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
    """Return F0 in Hz (0 where unvoiced) and times in seconds, both (T,)."""
    rough, times = pyworld.dio(signal, rate, frame_period=FRAME_MS)
    return pyworld.stonemask(signal, rough, times, rate), times


def log_mel_envelope(power_TF: Doubles, rate: int) -> Doubles:
    """Convert power envelopes (T, F) over 0..rate/2 Hz to log-mel amplitudes (T, N)."""
    return 0.5 * np.log(power_TF) @ _mel_interpolation(rate, power_TF.shape[1])


def mel_cepstra(log_mel_TN: Doubles) -> Doubles:
    """Return coefficients 1..`ORDER` (T, C), scaled so that ln|H| = c_0 + sum of c_k cos(k w)."""
    return dct(log_mel_TN, axis=1)[:, 1 : ORDER + 1] / MEL_POINTS


@lru_cache
def _mel_interpolation(rate: int, bins: int) -> Doubles:

    highest = 1127.0 * np.log1p(rate / 2 / 700.0)
    points = 700.0 * np.expm1((np.arange(MEL_POINTS) + 0.5) / MEL_POINTS * highest / 1127.0)
    frequencies = np.linspace(0.0, rate / 2, bins)
    return np.stack([np.interp(points, frequencies, unit) for unit in np.eye(bins)])
