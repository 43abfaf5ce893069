"""Recordings unlike the others of their speaker, perhaps from a different room, microphone or voice.

Each measurement is compared with the speaker's median and median absolute deviation (B. Iglewicz, D. Hoaglin, "How to
detect and handle outliers", ASQC 1993). Below 3 s of speech, deviations are scaled by the square root of the duration,
because measurements of a few words vary more.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sonorant.audio.arrays import Doubles
from sonorant.corpus.manifest import Utterance

FEWEST = 20
"""Minimum number of recordings per speaker for detecting outliers."""
UNUSUAL = 4.0
"""Minimum distance of an outlier from the median, in robust standard deviations."""
_SHRINKAGE = 0.3
_TO_SIGMA = 1.4826  # ratio of standard deviation to median absolute deviation of a normal distribution


@dataclass(frozen=True)
class _Figure:
    key: str
    name: str
    unit: str
    least: float
    """Minimum audible difference, after `scale`."""
    low: str
    high: str
    """Likely cause of a high value (`low`: of a low value); empty means not an outlier."""
    scale: Callable[[Doubles], Doubles] = np.asarray


def _semitones(hertz: Doubles) -> Doubles:
    return 12 * np.log2(hertz)


_FIGURES = (
    _Figure("snr_db", "signal-to-noise ratio", "dB", 2.0, "noise", "less noise"),
    _Figure("noise_floor_db", "noise floor", "dB", 2.0, "another room or gain", "noise"),
    _Figure("reverberation", "reverberation", "s", 0.02, "a drier room", "another room"),
    _Figure("bandwidth_hz", "bandwidth", "Hz", 0.1, "resampled or another microphone", "another microphone", np.log2),
    _Figure("hum_db", "hum", "dB", 1.5, "", "mains hum"),
    _Figure("pitch_hz", "pitch", "Hz", 0.6, "another voice", "another voice", _semitones),
    _Figure("loudness", "loudness", "LUFS", 1.0, "further away", "nearer or louder"),
)


def find_outliers(utterances: Sequence[Utterance]) -> list[dict[str, Any]]:
    """Return outliers, most unusual first: `id`, `deviations`, and `words`, which compares unusual measurements with
    the middle 90 % of the speaker's."""
    by_speaker: dict[str, list[Utterance]] = defaultdict(list)
    for utterance in utterances:
        by_speaker[utterance.speaker].append(utterance)
    rows = []
    for own in by_speaker.values():
        unusual: dict[str, list[tuple[float, str]]] = defaultdict(list)
        for id, deviation, words in (*_unusual_figures(own), *_unusual_spectra(own)):
            unusual[id].append((deviation, words))
        for id, found in unusual.items():
            words = "; ".join(words for _, words in sorted(found)[::-1])
            rows.append({"id": id, "deviations": round(max(found)[0], 1), "words": words})
    return sorted(rows, key=lambda row: (-row["deviations"], row["id"]))


def _unusual_figures(utterances: list[Utterance]) -> Iterator[tuple[str, float, str]]:
    for figure in _FIGURES:
        known = [(utterance, value) for utterance in utterances if (value := _value(utterance, figure.key)) is not None]
        if len(known) < FEWEST:
            continue
        values = np.array([value for _, value in known])
        low, high = np.percentile(values, [5, 95]).round(2)
        deviations = _deviations(figure.scale(values), figure.least) * _weights([utterance for utterance, _ in known])
        for (utterance, value), deviation in zip(known, deviations, strict=True):
            meaning = figure.high if deviation > 0 else figure.low
            if abs(deviation) >= UNUSUAL and meaning:
                others = f"others {low:g} to {high:g} ({meaning})"
                yield utterance.id, abs(float(deviation)), f"{figure.name} {value:g} {figure.unit}, {others}"


def _value(utterance: Utterance, key: str) -> Any:
    return utterance.conditioning.before.loudness if key == "loudness" else getattr(utterance.measures, key)  # type: ignore[union-attr]


def _unusual_spectra(utterances: list[Utterance]) -> Iterator[tuple[str, float, str]]:
    """Yield utterances whose average spectrum is far from the speaker's median, by Mahalanobis distance with covariance
    shrunk towards a sphere (O. Ledoit, M. Wolf, 2004)."""
    known = [utterance for utterance in utterances if _value(utterance, "spectrum")]
    if len(known) < FEWEST:
        return
    spectra_RB = np.array([_value(utterance, "spectrum") for utterance in known])
    apart_RB = np.array([_deviations(band_R, 1.0) for band_R in spectra_RB.T]).T * _weights(known)[:, None]
    covariance_BB = np.cov(np.clip(apart_RB, -3, 3).T)
    sphere_BB = np.eye(len(covariance_BB)) * max(np.trace(covariance_BB) / len(covariance_BB), 1e-6)
    inverse_BB = np.linalg.inv((1 - _SHRINKAGE) * covariance_BB + _SHRINKAGE * sphere_BB)
    distances_R = np.sqrt(np.einsum("rb,bc,rc->r", apart_RB, inverse_BB, apart_RB))
    decibels_R = np.sqrt(np.square(spectra_RB - np.median(spectra_RB, axis=0)).mean(axis=1))
    most = np.percentile(decibels_R, 95)
    for utterance, decibels, deviation in zip(known, decibels_R, _deviations(distances_R, 0.5), strict=True):
        if deviation >= UNUSUAL:
            words = f"spectrum {decibels:.1f} dB from the median, others up to {most:.1f} dB"
            yield utterance.id, float(deviation), f"{words} (another microphone or voice)"


def _weights(utterances: list[Utterance]) -> Doubles:
    return np.sqrt(np.minimum(np.array([_value(utterance, "speech_seconds") for utterance in utterances]) / 3, 1))


def _deviations(values: Doubles, least: float) -> Doubles:
    """Return distances from the median in robust standard deviations of at least `least`."""
    distances = values - np.median(values)
    return distances / max(_TO_SIGMA * float(np.median(np.abs(distances))), least)
