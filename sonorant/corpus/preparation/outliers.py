"""Recordings unlike the others of their speaker: another room, microphone or voice, found without a limit to set.

Each figure is compared with the speaker's own distribution by its median and its median absolute deviation, which
strays do not move (B. Iglewicz, D. Hoaglin, "How to detect and handle outliers", ASQC 1993). A few words hold few
sounds, and what is theirs is not the room's or the voice's: below 3 s of speech a deviation counts less, by the root of
the seconds.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from sonorant.audio.arrays import Doubles
from sonorant.audio.measures import Measures

FEWEST = 20
"""Recordings of a speaker from which they have a distribution."""
UNUSUAL = 4.0
"""Deviations from the median from which a figure is unusual."""
_SHRINKAGE = 0.3
_TO_SIGMA = 1.4826  # a normal distribution's standard deviation over its median absolute deviation


@dataclass(frozen=True, kw_only=True)
class Recording:
    """What is compared of one recording."""

    id: str
    speaker: str
    measures: Measures
    loudness: float | None
    """LUFS, before conditioning."""


@dataclass(frozen=True, kw_only=True)
class Outlier:
    """A recording unlike its speaker's others."""

    id: str
    deviations: float
    """Of the figure that is most unusual."""
    words: str
    """Each unusual figure, the most unusual first, beside the middle 90 % of the others."""


@dataclass(frozen=True)
class _Figure:
    name: str
    unit: str
    of: Callable[[Recording], float | None]
    least: float
    """Smallest deviation that counts as one, in the figure's scale: what cannot be heard is not unusual."""
    scale: Callable[[Doubles], Doubles] = np.asarray
    """From the figure to what is compared."""
    low: str = ""
    high: str = ""
    """What a value below or above the others may mean."""


def _semitones(hertz: Doubles) -> Doubles:
    return 12 * np.log2(hertz)


_FIGURES = (
    _Figure("signal-to-noise ratio", "dB", lambda r: r.measures.snr_db, 2.0, low="noise", high="less noise"),
    _Figure("noise floor", "dB", lambda r: r.measures.noise_floor_db, 2.0, low="another room or gain", high="noise"),
    _Figure("reverberation", "s", lambda r: r.measures.reverberation, 0.02, low="a drier room", high="another room"),
    _Figure("bandwidth", "Hz", lambda r: r.measures.bandwidth_hz, 0.1, np.log2, "resampled or another microphone",
            "another microphone"),
    _Figure("hum", "dB", lambda r: r.measures.hum_db, 1.5, high="mains hum"),
    _Figure("pitch", "Hz", lambda r: r.measures.pitch_hz, 0.6, _semitones, "another voice", "another voice"),
    _Figure("loudness", "LUFS", lambda r: r.loudness, 1.0, low="further away", high="nearer or louder"),
)  # fmt: skip


def find_outliers(recordings: Sequence[Recording]) -> list[Outlier]:
    """The recordings unlike their speaker's others, the most unusual first; of speakers with `FEWEST` or more."""
    by_speaker: dict[str, list[Recording]] = defaultdict(list)
    for recording in recordings:
        by_speaker[recording.speaker].append(recording)
    found = [outlier for own in by_speaker.values() if len(own) >= FEWEST for outlier in _of_speaker(own)]
    return sorted(found, key=lambda outlier: (-outlier.deviations, outlier.id))


def _of_speaker(recordings: list[Recording]) -> list[Outlier]:
    unusual: dict[str, list[tuple[float, str]]] = defaultdict(list)
    for figure in _FIGURES:
        known = [(recording, value) for recording in recordings if (value := figure.of(recording)) is not None]
        if len(known) < FEWEST:
            continue
        values = np.array([value for _, value in known])
        low, high = np.percentile(values, [5, 95]).round(2)
        deviations = _deviations(figure.scale(values), figure.least) * _weights([recording for recording, _ in known])
        for (recording, value), deviation in zip(known, deviations, strict=True):
            meaning = figure.high if deviation > 0 else figure.low
            if abs(deviation) >= UNUSUAL and meaning:
                said = f"{figure.name} {value:g} {figure.unit}, others {low:g} to {high:g} ({meaning})"
                unusual[recording.id].append((abs(float(deviation)), said))
    for id, deviation, said in _unlike_spectra(recordings):
        unusual[id].append((deviation, said))
    return [
        Outlier(id=id, deviations=round(max(found)[0], 1), words="; ".join(said for _, said in sorted(found)[::-1]))
        for id, found in unusual.items()
    ]


def _unlike_spectra(recordings: list[Recording]) -> list[tuple[str, float, str]]:
    """Recordings whose average spectrum is far from the speaker's median one.

    By Mahalanobis' distance, so that what usually varies, and varies together, counts less; the covariance is shrunk
    towards a sphere (O. Ledoit, M. Wolf, 2004).
    """
    known = [(recording, recording.measures.spectrum) for recording in recordings if recording.measures.spectrum]
    if len(known) < FEWEST:
        return []
    spectra_RB = np.array([spectrum for _, spectrum in known])
    apart_RB = np.array([_deviations(band_R, 1.0) for band_R in spectra_RB.T]).T
    apart_RB *= _weights([recording for recording, _ in known])[:, None]
    covariance_BB = np.cov(np.clip(apart_RB, -3, 3).T)
    sphere_BB = np.eye(len(covariance_BB)) * max(np.trace(covariance_BB) / len(covariance_BB), 1e-6)
    inverse_BB = np.linalg.inv((1 - _SHRINKAGE) * covariance_BB + _SHRINKAGE * sphere_BB)
    distances_R = np.sqrt(np.einsum("rb,bc,rc->r", apart_RB, inverse_BB, apart_RB))
    decibels_R = np.sqrt(np.square(spectra_RB - np.median(spectra_RB, axis=0)).mean(axis=1))
    words = "spectrum {:.1f} dB from the usual, others up to {:.1f} (another microphone or voice)"
    return [
        (recording.id, float(deviation), words.format(decibels, np.percentile(decibels_R, 95)))
        for (recording, _), decibels, deviation in zip(known, decibels_R, _deviations(distances_R, 0.5), strict=True)
        if deviation >= UNUSUAL
    ]


def _weights(recordings: list[Recording]) -> Doubles:
    """How much a deviation counts, float64 (R,) from 0 to 1, by the seconds of speech."""
    return np.sqrt(np.minimum(np.array([recording.measures.speech_seconds for recording in recordings]) / 3, 1))


def _deviations(values: Doubles, least: float) -> Doubles:
    """Distances from the median in robust standard deviations of at least `least`."""
    distances = values - np.median(values)
    return distances / max(_TO_SIGMA * float(np.median(np.abs(distances))), least)
