"""Faults planted in real speech: samples (S,) and rate in Hz."""

from collections.abc import Callable
from functools import partial

import numpy as np
import pyworld
from scipy.signal import butter, istft, sosfiltfilt, stft

Sound = np.ndarray
FRAME_SECONDS = 0.005


def copied(
    samples: Sound,
    rate: int,
    pitch: Callable[[Sound], Sound] | None = None,
    aperiodicity: float = 1.0,
    frames: Callable[[int], Sound] | None = None,
) -> Sound:
    """WORLD copy with changed pitch (Hz, 0 if unvoiced), aperiodicity or frames."""
    signal = np.ascontiguousarray(samples, np.float64)
    f0, times = pyworld.dio(signal, rate, frame_period=1000 * FRAME_SECONDS)
    f0 = pyworld.stonemask(signal, f0, times, rate)
    envelope = pyworld.cheaptrick(signal, f0, times, rate)
    noise = np.clip(pyworld.d4c(signal, f0, times, rate) * aperiodicity, 1e-6, 1.0)
    f0 = pitch(f0) if pitch else f0
    chosen = frames(len(f0)) if frames else np.arange(len(f0))
    spoken = pyworld.synthesize(*(np.ascontiguousarray(each[chosen]) for each in (f0, envelope, noise)), rate, 5.0)
    return np.asarray(spoken)


def level(f0: Sound) -> Sound:
    """Constant pitch."""
    return np.where(f0 > 0, np.median(f0[f0 > 0]), 0.0)


def inverted(f0: Sound) -> Sound:
    return np.where(f0 > 0, np.median(f0[f0 > 0]) ** 2 / np.maximum(f0, 1.0), 0.0)


def higher(f0: Sound) -> Sound:
    """By a major third."""
    return 1.26 * f0


def at_tempo(count: int, tempo: float) -> Sound:
    return np.arange(0, count - 1, tempo).round().astype(int)


def in_jerks(count: int) -> Sound:
    """Alternately fast and slow, in cycles of 0.6 s."""
    tempo = 1 + 0.7 * np.sin(2 * np.pi * np.arange(2 * count) * FRAME_SECONDS / 0.6)
    places = np.cumsum(tempo)
    return places[places < count - 1].round().astype(int)


def metallic(samples: Sound, rate: int) -> Sound:
    """Random phases."""
    spectra = stft(samples, rate, nperseg=1024, noverlap=768)[2]
    phases = np.exp(2j * np.pi * np.random.default_rng(1).random(spectra.shape))
    return np.asarray(istft(np.abs(spectra) * phases, rate, nperseg=1024, noverlap=768)[1][: len(samples)])


def in_noise(samples: Sound, rate: int) -> Sound:
    """White noise 25 dB below the speech."""
    frames = samples[: len(samples) // 160 * 160].reshape(-1, 160)
    amplitude = np.sqrt(np.percentile(np.square(frames).mean(axis=1), 90) * 10**-2.5)
    return samples + np.random.default_rng(1).normal(0, amplitude, len(samples))


def muffled(samples: Sound, rate: int) -> Sound:
    """Low-pass at 3.4 kHz."""
    return np.asarray(sosfiltfilt(butter(8, 3400, fs=rate, output="sos"), samples))


def swallowed(samples: Sound, rate: int) -> Sound:
    """Every third 0.2 s is 20 dB quieter."""
    fifths = (np.arange(len(samples)) / (0.2 * rate)).astype(int)
    return samples * np.where(fifths % 3 == 2, 0.1, 1.0)


def halting(samples: Sound, rate: int) -> Sound:
    """0.8 s of silence in the middle."""
    before, after = np.array_split(samples, 2)
    return np.concatenate([before, np.zeros(round(0.8 * rate)), after])


FAULTS: dict[str, Callable[[Sound, int], Sound]] = {
    "buzz": partial(copied, aperiodicity=0.0),
    "monotone": partial(copied, pitch=level),
    "wrong melody": partial(copied, pitch=inverted),
    "shrill": partial(copied, pitch=higher),
    "metallic": metallic,
    "hurried": partial(copied, frames=partial(at_tempo, tempo=1.35)),
    "dragging": partial(copied, frames=partial(at_tempo, tempo=0.7)),
    "uneven": partial(copied, frames=in_jerks),
    "noisy": in_noise,
    "muffled": muffled,
    "swallowed": swallowed,
    "halting": halting,
}
