"""Pitch, energy and rhythm of synthesised speech compared with its recording. `T` 10 ms frames, `P` aligned pairs."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sonorant.audio.arrays import Doubles, Ints
from sonorant.audio.voice_activity import speech_probability, speech_spans
from sonorant.evaluation.analysis import SPEECH_DB, Analysis

LEAST_FRAMES = 20
SLIP = 9.0
"""Semitones from the median beyond which a pitch counts as an octave error."""
SLOPE_FRAMES = 15
"""Number of recording frames (150 ms) over which local tempo is measured."""
FASTEST = 4.0
"""Limit of the local tempo ratio, because the alignment may stay on one frame."""


def semitones(f0_T: Doubles) -> Doubles:
    """Convert F0 (T,) in Hz, 0 where unvoiced, to semitones above 100 Hz, NaN where unvoiced. Octave errors beyond
    `SLIP` are corrected."""
    with np.errstate(divide="ignore"):
        found = np.where(f0_T > 0, 12.0 * np.log2(f0_T / 100.0), np.nan)
    if not (f0_T > 0).any():
        return found
    away = found - np.nanmedian(found)
    return np.where(np.abs(away) > SLIP, found - 12.0 * np.round(away / 12.0), found)


def range_of(values: Doubles) -> float:
    """Return the difference between the 5th and 95th percentile of values (N,), or NaN."""
    if len(values) < LEAST_FRAMES:
        return float("nan")
    low, high = np.percentile(values, [5.0, 95.0])
    return float(high - low)


@dataclass(frozen=True, kw_only=True)
class Prosody:
    pitch_T: Doubles
    """Pitch in semitones, NaN where unvoiced."""
    pitch_range: float
    """Semitones between the 5th and 95th percentile of pitch in voiced speech."""
    speech_seconds: float
    """Duration without pauses and leading or trailing silence."""
    pauses: int
    """Number of silences of at least 0.1 s inside speech, detected by Silero VAD."""
    pause_seconds: float


def prosody(sound: Analysis) -> Prosody:
    spans = speech_spans(speech_probability(sound.samples.astype(np.float32), sound.rate))
    speech_seconds = sum(end - start for start, end in spans)
    pitch_T, speech = semitones(sound.f0), sound.speech
    return Prosody(
        pitch_T=pitch_T,
        pitch_range=range_of(pitch_T[speech & ~np.isnan(pitch_T)]),
        speech_seconds=speech_seconds,
        pauses=max(len(spans) - 1, 0),
        pause_seconds=spans[-1][1] - spans[0][0] - speech_seconds if spans else 0.0,
    )


def compare_pitch(ours: Doubles, theirs: Doubles) -> tuple[float, float, float]:
    """Return correlation, RMS error and median offset (cents) of aligned pitches (P,) in semitones, NaN where unvoiced.
    The error excludes the offset."""
    both = ~np.isnan(ours) & ~np.isnan(theirs)
    if both.sum() < LEAST_FRAMES:
        return float("nan"), float("nan"), float("nan")
    difference = 100.0 * (ours[both] - theirs[both])
    offset = float(np.median(difference))
    return correlation(ours[both], theirs[both]), float(np.sqrt(np.square(difference - offset).mean())), offset


def compare_energy(ours: Doubles, theirs: Doubles) -> tuple[float, float]:
    """Return correlation and RMS error (dB) of aligned levels (P,), after raising levels below speech to its lower
    limit. The error excludes the median difference."""
    if len(ours) < LEAST_FRAMES:
        return float("nan"), float("nan")
    ours, theirs = (np.maximum(level, level.max() - SPEECH_DB) for level in (ours, theirs))
    difference = ours - theirs
    return correlation(ours, theirs), float(np.sqrt(np.square(difference - np.median(difference)).mean()))


def correlation(ours: Doubles, theirs: Doubles) -> float:
    """Return the Pearson correlation of two arrays (N,); 0 if either is constant."""
    if min(ours.std(), theirs.std()) < 1e-6:
        return 0.0
    return float(np.corrcoef(ours, theirs)[0, 1])


def unevenness(i: Ints, j: Ints, speech: NDArray[np.bool_]) -> float:
    """Return the standard deviation of the local tempo in octaves along an alignment path (P,). Tempo is measured over
    `SLOPE_FRAMES` recording frames that are all `speech` (T,)."""
    frames = np.arange(j[-1] + 1)
    if len(frames) <= SLOPE_FRAMES:
        return float("nan")
    place = np.interp(frames, *_means(j, i))
    slope = (place[SLOPE_FRAMES:] - place[:-SLOPE_FRAMES]) / SLOPE_FRAMES
    windows = np.lib.stride_tricks.sliding_window_view(speech[: len(frames)], SLOPE_FRAMES + 1).all(axis=1)
    used = slope[windows]
    if len(used) < LEAST_FRAMES:
        return float("nan")
    return float(np.log2(np.clip(used, 1 / FASTEST, FASTEST)).std())


def _means(keys: Ints, values: Ints) -> tuple[Doubles, Doubles]:
    places, inverse, counts = np.unique(keys, return_inverse=True, return_counts=True)
    return places.astype(np.float64), np.bincount(inverse, weights=values) / counts
