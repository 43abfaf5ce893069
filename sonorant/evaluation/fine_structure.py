"""Pulses, harmonics, noise floor and treble, which reveal buzz, hiss and metallic phase that envelopes do not show. `S`
samples, `T` 10 ms frames, `B` 0.5 ms blocks."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, next_fast_len, rfft

from sonorant.audio.arrays import Doubles, Ints
from sonorant.evaluation.analysis import FRAME_MS, Analysis

PULSE_BAND = (3000.0, 7000.0)
"""Band in Hz where speech is half noise, so a buzz stands out."""
BLOCK_SECONDS = 0.0005
WINDOW_SECONDS = 0.04
"""Length of the analysis window, three periods of a deep voice."""
VOICED_DB = 35.0
"""Pitch is unreliable in frames more than this many dB below the loudest."""
LEAST_FRAMES = 20
TREBLE_HZ = 4000.0
QUIETEST = 1e-12
LOWEST_FLOOR_DB = -75.0
"""Level in dB relative to speech below which noise is inaudible."""


@dataclass(frozen=True, kw_only=True)
class FineStructure:
    """Metrics of one sound; NaN if it has too little voiced speech or bandwidth."""

    pulses: float
    """Prominence of pitch pulses in `PULSE_BAND`, in dB."""
    harmonicity: float
    """Harmonics-to-noise ratio in dB."""
    noise_floor: float
    """Level of the quietest moments in dB relative to speech."""
    treble: float


def fine_structure(sound: Analysis) -> FineStructure:
    voiced = (sound.f0 > 0) & (sound.level >= sound.level.max() - VOICED_DB)
    return FineStructure(
        pulses=pulses(sound, voiced),
        harmonicity=harmonicity(sound, voiced),
        noise_floor=noise_floor(sound),
        treble=treble(sound),
    )


def pulses(sound: Analysis, voiced: NDArray[np.bool_]) -> float:
    """Return the pitch-synchronous part of the band's envelope in dB relative to its mean, over the frames `voiced`
    (T,)."""
    low, high = PULSE_BAND[0], min(PULSE_BAND[1], 0.47 * sound.rate)
    if voiced.sum() < LEAST_FRAMES or high < 1.5 * low:
        return float("nan")
    size = max(round(BLOCK_SECONDS * sound.rate), 1)
    envelope_S = _envelope(sound.samples, sound.rate, low, high)
    envelope_B = envelope_S[: len(envelope_S) // size * size].reshape(-1, size).mean(axis=1)
    seconds_B = (np.arange(len(envelope_B)) + 0.5) * size / sound.rate
    times_T = np.arange(len(sound.f0)) * FRAME_MS / 1000
    known = sound.f0 > 0
    f0_B = np.interp(seconds_B, times_T[known], sound.f0[known])
    beating_B = envelope_B * np.exp(-2j * np.pi * np.cumsum(f0_B) * size / sound.rate)
    frames, window = _windows(times_T[voiced] * sound.rate / size, WINDOW_SECONDS * sound.rate / size, len(envelope_B))
    beats, means = np.abs(beating_B[frames] @ window), envelope_B[frames] @ window
    return float((20.0 * np.log10(np.maximum(2.0 * beats / np.maximum(means, QUIETEST), 1e-3))).mean())


def _envelope(samples: Doubles, rate: int, low: float, high: float) -> Doubles:
    size = next_fast_len(len(samples))
    frequencies = np.fft.fftfreq(size, 1 / rate)
    gain = np.clip((frequencies - low) / 200 + 0.5, 0, 1) * np.clip((high - frequencies) / 200 + 0.5, 0, 1)
    return np.asarray(np.abs(np.fft.ifft(2.0 * gain * np.fft.fft(samples, size)))[: len(samples)])


def harmonicity(sound: Analysis, voiced: NDArray[np.bool_]) -> float:
    """Return the mean harmonics-to-noise ratio of the frames `voiced` (T,) in dB.

    Uses autocorrelation at the pitch period (Boersma, "Accurate short-term analysis of the fundamental frequency and
    the harmonics-to-noise ratio of a sampled sound", IFA 17, 1993).
    """
    if voiced.sum() < LEAST_FRAMES:
        return float("nan")
    place = np.flatnonzero(voiced)
    frames, window = _windows(place * FRAME_MS / 1000 * sound.rate, WINDOW_SECONDS * sound.rate, len(sound.samples))
    frames_TS, width = sound.samples[frames], len(window)
    frames_TS = (frames_TS - frames_TS.mean(axis=1, keepdims=True)) * window
    size = next_fast_len(2 * width, real=True)
    alike_TS = irfft(np.square(np.abs(rfft(frames_TS, size, axis=1))), size, axis=1)
    of_window = irfft(np.square(np.abs(rfft(window, size))), size)
    lags = np.arange(round(sound.rate / 800), width // 2)
    alike_TL = alike_TS[:, lags] / np.maximum(alike_TS[:, :1], QUIETEST) / (of_window[lags] / of_window[0])
    near = np.abs(np.log2(lags / (sound.rate / sound.f0[place])[:, None])) < 0.15
    best = np.clip(np.where(near, alike_TL, 0.0).max(axis=1), 0.01, 0.9999)
    return float((10.0 * np.log10(best / (1.0 - best))).mean())


def _windows(middles: Doubles, length: float, count: int) -> tuple[Ints, Doubles]:
    width = round(length)
    first = np.round(middles).astype(int) - width // 2
    return np.clip(first, 0, count - width)[:, None] + np.arange(width), np.hanning(width + 2)[1:-1]


def noise_floor(sound: Analysis) -> float:
    """Return the 5th percentile of frame levels in dB relative to speech."""
    size = round(0.01 * sound.rate)
    if len(sound.samples) < 10 * size:
        return float("nan")
    power_T = np.square(sound.samples[: len(sound.samples) // size * size].reshape(-1, size)).mean(axis=1)
    speech = np.percentile(power_T, 90)
    return float(
        max(10.0 * np.log10(max(np.percentile(power_T, 5), QUIETEST) / max(speech, QUIETEST)), LOWEST_FLOOR_DB)
    )


def treble(sound: Analysis) -> float:
    size = round(0.032 * sound.rate)
    if sound.rate < 2.5 * TREBLE_HZ or len(sound.samples) < size:
        return float("nan")
    frames_TS = np.lib.stride_tricks.sliding_window_view(sound.samples, size)[:: size // 2]
    power_F = np.square(np.abs(rfft(frames_TS * np.hanning(size), axis=1))).sum(axis=0)
    high = np.fft.rfftfreq(size, 1 / sound.rate) >= TREBLE_HZ
    return float(10.0 * np.log10(max(power_F[high].sum(), QUIETEST) / max(power_F.sum(), QUIETEST)))
