"""What a recording sounds like in figures: noise, room, bandwidth, hum, clipping, voice.

Every figure is one that can be measured on a few seconds without a reference, with its unit and its method; None where
the recording does not hold what it needs. None of them changes with the recording's level but the noise floor.
"""

from dataclasses import dataclass

import numpy as np

from sonorant.arrays import Doubles, Floats
from sonorant.audio.speech import BLOCK_SECONDS, RATE, near_speech
from sonorant.audio.wav import resample

SILENCE_DB = -120.0
"""dB of full scale that digital silence counts as."""
SPECTRUM_BANDS = 24
SPECTRUM_TOP = 8000.0
"""Hz; voice and microphone tell more below, and most recordings have it."""


@dataclass(frozen=True, kw_only=True)
class Measures:
    """Figures of one recording, rounded; None: not measurable in it."""

    speech_seconds: float
    """Seconds of 32 ms blocks in which somebody speaks."""
    snr_db: float | None
    """Mean power of speech over median power of its pauses, in dB. Needs 0.2 s of each."""
    noise_floor_db: float | None
    """Median power of the pauses, offset removed, in dB of full scale (a sine at full scale: -3)."""
    reverberation: float | None
    """Seconds in which the fastest decays would fall by 60 dB: about 0.25 in a dry room, the reverberation time from
    0.4 to 0.8, somewhat less beyond."""
    bandwidth_hz: float | None
    """Highest frequency at which speech is 6 dB above its pauses and within 75 dB of its loudest band, to 1/64 of
    half the rate."""
    hum_db: float | None
    """Mains hum: power at 50 or 60 Hz and four harmonics over that between them, in dB; 0 to 3 without hum."""
    clipped: float
    """Fraction of samples at full scale."""
    soft_clipped: float
    """Fraction of samples piled up at the largest values of a recording that was clipped and then made quieter."""
    dc: float
    """Mean of the samples, full scale 1."""
    pitch_hz: float | None
    """Median fundamental frequency of voiced speech."""
    spectrum: tuple[float, ...] | None
    """Long-term average spectrum of speech in dB, 24 mel bands to 8 kHz, its mean removed."""


def measure(samples: Floats, rate: int, probability: Floats) -> Measures:
    """Figures of samples (S,), finite, at `rate` Hz. `probability` (F,): as `speech_probability` gives it."""
    dc = float(samples.mean(dtype=np.float64)) if len(samples) else 0.0
    centred = samples - np.float32(dc)
    heard = resample(centred, rate, RATE) if rate != RATE else centred
    speech = probability >= SPEECH
    quiet = ~near_speech(probability)
    noise_db = _noise_floor(centred, rate, quiet)
    return Measures(
        speech_seconds=round(float(speech.sum()) * BLOCK_SECONDS, 3),
        snr_db=_rounded(_snr(centred, rate, speech, noise_db), 1),
        noise_floor_db=_rounded(noise_db, 1),
        reverberation=_rounded(reverberation(heard, speech), 2),
        bandwidth_hz=_rounded(bandwidth(centred, rate, speech, quiet), 0),
        hum_db=_rounded(hum(heard), 1),
        clipped=_share(np.abs(samples) >= FULL_SCALE),
        soft_clipped=soft_clipped(centred),
        dc=float(f"{dc:.3g}"),
        pitch_hz=_rounded(pitch(heard, speech), 1),
        spectrum=spectrum(heard, speech),
    )
