"""Measure noise, reverberation, bandwidth, hum, clipping and pitch of a recording. Measures are None if it is too short
or contains no speech. Only the noise floor depends on the recording's level."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sonorant.audio.arrays import Doubles, Floats
from sonorant.audio.voice_activity import BLOCK_SECONDS, RATE, SPEAKING
from sonorant.audio.wav import resample

FULL_SCALE = 0.999
"""Absolute value from which a sample counts as clipped."""
BANDS = 1000 * 2.0 ** (np.arange(-7, 9) / 3)
"""Centres in Hz of the third-octave bands of `Measures.spectrum` (IEC 61260-1)."""

_POWER_FLOOR = 1e-12  # -120 dB of full scale, for digital silence
_ROOM_EDGES = (300, 800, 1500, 2500, 4000, 6500)  # Hz, bands whose decays are measured
_ROOM_STEPS = 18  # 144 ms
_MOST_BELOW_DB = 70.0
_ABOVE_PAUSES_DB = 10.0
_MAINS_RATE = 1000  # Hz


@dataclass(frozen=True, kw_only=True, slots=True)
class Measures:
    """Rounded measurements of one recording; None means not measurable."""

    speech_seconds: float
    """Seconds of speech without pauses, in steps of 32 ms."""
    snr_db: float | None
    """Mean power of speech relative to the noise floor."""
    noise_floor_db: float | None
    """5th percentile of the power of 10 ms frames in dB of full scale, excluding offset and digital silence (R. Martin,
    "Noise power spectral density estimation", IEEE TSAP 9, 2001). Too high for recordings without pauses."""
    reverberation: float | None
    """Reverberation time in seconds."""
    bandwidth_hz: float | None
    """Highest frequency with speech."""
    hum_db: float | None
    clipped: float
    """Fraction of samples at full scale."""
    soft_clipped: float
    dc: float
    """Constant offset: mean of the samples."""
    pitch_hz: float | None
    """Median fundamental frequency of the speech."""
    dnsmos: float | None = None
    """Overall DNSMOS, 1 to 5, if `prepare.rate_dnsmos` is set."""
    spectrum: tuple[float, ...] | None
    """Average spectrum of speech in dB in `BANDS`, minus its mean."""


def measure(samples: Floats, rate: int, probability: Floats) -> Measures:
    """Measure finite samples (S,) at `rate` Hz. `probability` (F,): result of `speech_probability`."""
    dc = float(samples.mean(dtype=np.float64)) if len(samples) else 0.0
    centred = samples - np.float32(dc)
    heard = resample(centred, rate, RATE)
    snr_db, noise_floor_db = noise(centred, rate, probability)
    powers_TF = _powers(heard, 512, 128)
    speech_powers_TF = powers_TF[_speaking(len(powers_TF), 128 / RATE, probability)]
    return Measures(
        speech_seconds=round(float((probability >= SPEAKING).sum()) * BLOCK_SECONDS, 3),
        snr_db=_rounded(snr_db, 1),
        noise_floor_db=_rounded(noise_floor_db, 1),
        reverberation=_rounded(reverberation(powers_TF) if len(speech_powers_TF) else None, 2),
        bandwidth_hz=_rounded(bandwidth(centred, rate, probability), 0),
        hum_db=_rounded(hum(heard), 1),
        clipped=_share(np.abs(samples) >= FULL_SCALE),
        soft_clipped=soft_clipped(samples),
        dc=float(f"{dc:.3g}"),
        pitch_hz=_rounded(pitch(heard, probability), 1),
        spectrum=spectrum(speech_powers_TF),
    )


def noise(samples: Floats, rate: int, probability: Floats) -> tuple[float | None, float | None]:
    """Return the signal-to-noise ratio in dB (None without speech) and the noise floor in dB of full scale (None if
    shorter than 0.1 s)."""
    size = round(0.01 * rate)
    frames_TS = samples[: len(samples) // size * size].reshape(-1, size).astype(np.float64)
    power_T = np.square(frames_TS).mean(axis=1)
    sounding = np.ptp(frames_TS, axis=1) > 0
    if len(power_T) < 10:
        return None, None
    floor = max(float(np.percentile(power_T[sounding], 5)) if sounding.any() else 0.0, _POWER_FLOOR)
    speaking = _speaking(len(power_T), 0.01, probability)
    if not speaking.any():
        return None, _db(floor)
    return _db(max(float(power_T[speaking].mean()) - floor, floor / 1000) / floor), _db(floor)


def reverberation(powers_TF: Doubles) -> float | None:
    """Estimate the reverberation time in seconds from power spectra (T, F) at `RATE`, 8 ms apart; None if there are too
    few decays.

    The steepest 5 % of the energy slopes (over 144 ms, in five bands) are due to the room, or to the voice in a dry
    room (Wen, Habets, Naylor, "Blind estimation of reverberation time", ICASSP 2008). True times of 0, 0.4, 0.8 and 1.2
    s are estimated as about 0.29, 0.41, 0.65 and 0.8 s.
    """
    if len(powers_TF) < _ROOM_STEPS:
        return None
    frequencies = np.linspace(0, RATE / 2, powers_TF.shape[1])
    place = np.arange(_ROOM_STEPS) - (_ROOM_STEPS - 1) / 2
    line = place / np.square(place).sum() / 0.008
    slopes: list[Doubles] = []
    for low, high in pairwise(_ROOM_EDGES):
        energy_T = _db(powers_TF[:, (frequencies >= low) & (frequencies < high)].sum(axis=1))
        floor = max(np.percentile(energy_T, 5) + 5, np.percentile(energy_T, 95) - 35)
        windows = np.lib.stride_tricks.sliding_window_view(energy_T, _ROOM_STEPS)
        slopes.append(windows[windows.min(axis=1) > floor] @ line)
    falling = np.concatenate(slopes)
    steepest = float(np.percentile(falling, 5)) if len(falling) >= 100 else 0.0
    return -60 / steepest if steepest < -10 else None


def bandwidth(samples: Floats, rate: int, probability: Floats) -> float | None:
    """Return the upper edge in Hz, to 1/64 of half the rate, of the highest two adjacent bands with speech; None
    without speech. In these bands, speech is 10 dB above the quietest moments (noise) and within 70 dB of the loudest
    band."""
    size = 2 * round(0.016 * rate)
    powers_TF = _powers(samples, size, size // 2)
    speaking = _speaking(len(powers_TF), size / 2 / rate, probability)
    if not speaking.any():
        return None
    bins = (powers_TF.shape[1] - 1) // 64
    bands_TB = powers_TF[:, 1 : 1 + 64 * bins].reshape(len(powers_TF), 64, bins).sum(axis=2)
    speech_B, quiet_B = _db(bands_TB[speaking].mean(axis=0)), _db(np.percentile(bands_TB, 10, axis=0))
    reached = (speech_B > quiet_B + _ABOVE_PAUSES_DB) & (speech_B > speech_B.max() - _MOST_BELOW_DB)
    both = np.flatnonzero(reached[1:] & reached[:-1])
    return float(both[-1] + 2) * bins * rate / size if len(both) else None


def hum(heard: Floats) -> float | None:
    """Return the power in dB of the strongest of 50, 60, 100 and 120 Hz relative to neighbouring frequencies, in the
    quietest quarter of half-second windows of samples (S,) at `RATE`; None if shorter than 1 s. It is 0 to 8 without
    hum."""
    slow = resample(heard, RATE, _MAINS_RATE)
    if len(slow) < _MAINS_RATE:
        return None
    power_F = np.percentile(_powers(slow, 500, 50), 25, axis=0)  # 2 Hz per bin
    ratios = []
    for line in (50, 60, 100, 120):
        at = line // 2
        beside = np.median(np.concatenate([power_F[at - 6 : at - 3], power_F[at + 4 : at + 7]]))
        ratios.append(_db(power_F[at - 1 : at + 2].mean()) - _db(beside))
    return float(max(ratios))


def soft_clipped(samples: Floats) -> float:
    """Detect clipping that was attenuated afterwards. If more than four times as many samples (S,) are within 2 % of a
    peak below full scale as in the next 2 % down (2.4 times in a sine), return the excess as a fraction of all samples;
    otherwise 0."""
    piled = 0
    for values in (samples, -samples):
        peak = float(values.max(initial=0.0))
        if 0 < peak < FULL_SCALE:
            top = np.count_nonzero(values >= 0.98 * peak)
            next_ = np.count_nonzero(values >= 0.96 * peak) - top
            piled += int(top - next_) if top > 4 * next_ else 0
    return round(piled / max(len(samples), 1), 6)


def pitch(heard: Floats, probability: Floats) -> float | None:
    """Return the median fundamental frequency in Hz of speech (S,) at `RATE`, by DIO (Morise et al. 2009; pyworld);
    None if there is less than 0.2 s of voiced speech."""
    import pyworld

    f0_T, _ = pyworld.dio(heard.astype(np.float64), RATE, f0_floor=60.0, f0_ceil=500.0, frame_period=10.0, speed=4)
    voiced = f0_T[_speaking(len(f0_T), 0.01, probability) & (f0_T > 0)]
    return float(np.median(voiced)) if len(voiced) >= 20 else None


def spectrum(speech_powers_TF: Doubles) -> tuple[float, ...] | None:
    """Compute `Measures.spectrum` from power spectra (T, F) of speech at `RATE`."""
    if not len(speech_powers_TF):
        return None
    mean_F = speech_powers_TF.mean(axis=0)
    frequencies = np.linspace(0, RATE / 2, len(mean_F))
    edges = [(centre / 2 ** (1 / 6), centre * 2 ** (1 / 6)) for centre in BANDS]
    powers = np.array([mean_F[(frequencies >= low) & (frequencies < high)].mean() for low, high in edges])
    bands = _db(np.maximum(powers, powers.max() * 1e-7))
    return tuple(round(float(value), 1) for value in bands - bands.mean())


def _powers(samples: Floats, size: int, step: int) -> Doubles:
    if len(samples) < size:
        return np.zeros((0, size // 2 + 1))
    frames_TS = np.lib.stride_tricks.sliding_window_view(samples, size)[::step]
    return np.square(np.abs(np.fft.rfft(frames_TS * np.blackman(size), axis=1)))


def _speaking(count: int, step: float, probability: Floats) -> NDArray[np.bool_]:
    if not len(probability):
        return np.zeros(count, dtype=np.bool_)
    places = np.minimum((np.arange(count) * step / BLOCK_SECONDS).astype(int), len(probability) - 1)
    return probability[places] >= SPEAKING


def _db(power: Any) -> Any:
    return 10 * np.log10(np.maximum(power, _POWER_FLOOR))


def _share(marked: NDArray[np.bool_]) -> float:
    return round(float(marked.mean()), 6) if len(marked) else 0.0


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(float(value), digits)
