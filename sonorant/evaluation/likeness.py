"""Compare synthesised sentences with their recordings; each metric isolates one kind of difference."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sonorant.audio.arrays import Doubles, Floats, Ints
from sonorant.evaluation.analysis import Analysis, analyse
from sonorant.evaluation.estimates import Figures, estimate
from sonorant.evaluation.fine_structure import FineStructure, fine_structure
from sonorant.evaluation.prosody_figures import Prosody, compare_energy, compare_pitch, prosody, unevenness
from sonorant.evaluation.spectral_distances import Distance, align_sounds, measure_distance
from sonorant.processes import spread
from sonorant.training.intervals import bootstrap

FEWEST = 0.5
"""Minimum fraction of sentences with a value; below it, the metric is absent."""


class Weighted(NamedTuple):
    """Value of a metric in one sentence and its weight; NaN if not measurable."""

    value: float
    weight: float = 1.0


@dataclass(frozen=True)
class Sounds:
    """Renderings of a sentence and its recording (`reference`), each (S,) at `rate` Hz."""

    renderings: Mapping[str, Floats]
    reference: Floats
    rate: int


@dataclass(frozen=True)
class Pair:
    distance: Distance
    figures: dict[str, Weighted]


@dataclass(frozen=True)
class _Heard:
    analysis: Analysis
    prosody: Prosody
    fine: FineStructure


def compare_sentences(sentences: Sequence[Sounds]) -> dict[str, list[Pair]]:
    found = spread(_compare, sentences, label="compare with recordings", unit="sentence")
    return {name: [sentence[name] for sentence in found] for name in sentences[0].renderings}


def compare(samples: NDArray[np.floating], reference: NDArray[np.floating], rate: int) -> Pair:
    return _pair(_hear(samples, rate), _hear(reference, rate))


def _compare(sounds: Sounds) -> dict[str, Pair]:
    reference = _hear(sounds.reference, sounds.rate)
    return {name: _pair(_hear(samples, sounds.rate), reference) for name, samples in sounds.renderings.items()}


def _hear(samples: NDArray[np.floating], rate: int) -> _Heard:
    found = analyse(samples, rate)
    return _Heard(found, prosody(found), fine_structure(found))


def _pair(ours: _Heard, theirs: _Heard) -> Pair:
    i, j = align_sounds(ours.analysis, theirs.analysis)
    distance = measure_distance(ours.analysis, theirs.analysis, i, j)
    return Pair(distance, _prosody(ours, theirs, i, j) | _sound(ours.fine, theirs.fine) | _errors(distance))


def _prosody(ours: _Heard, theirs: _Heard, i: Ints, j: Ints) -> dict[str, Weighted]:
    speech = theirs.analysis.speech
    heard = speech[j]
    melody, error, offset = compare_pitch(ours.prosody.pitch_T[i[heard]], theirs.prosody.pitch_T[j[heard]])
    energy, energy_error = compare_energy(ours.analysis.level[i[heard]], theirs.analysis.level[j[heard]])
    mine, own = ours.prosody, theirs.prosody
    return {
        "pitch_range_ratio": _ratio(mine.pitch_range, own.pitch_range),
        "pitch_correlation": Weighted(melody),
        "pitch_error_cents": Weighted(error),
        "pitch_offset_cents": Weighted(offset),
        "energy_correlation": Weighted(energy),
        "energy_error_db": Weighted(energy_error),
        "tempo_ratio": _ratio(own.speech_seconds, mine.speech_seconds),
        "tempo_unevenness": Weighted(unevenness(i, j, speech)),
        "pauses_per_minute": Weighted(
            60 * (mine.pauses / ours.analysis.seconds - own.pauses / theirs.analysis.seconds)
        ),
        "pause_seconds_per_minute": Weighted(
            60 * (mine.pause_seconds / ours.analysis.seconds - own.pause_seconds / theirs.analysis.seconds)
        ),
    }


def _sound(ours: FineStructure, theirs: FineStructure) -> dict[str, Weighted]:
    return {
        "pulses_db": Weighted(ours.pulses - theirs.pulses),
        "harmonicity_db": Weighted(ours.harmonicity - theirs.harmonicity),
        "noise_floor_db": Weighted(ours.noise_floor - theirs.noise_floor),
        "treble_db": Weighted(ours.treble - theirs.treble),
    }


def _errors(distance: Distance) -> dict[str, Weighted]:
    return {"voicing_error": Weighted(distance.voicing_errors / max(distance.pairs, 1), distance.pairs)}


def _ratio(ours: float, theirs: float) -> Weighted:
    """Weight a ratio by its divisor, so that means are ratios of sums."""
    return Weighted(ours / theirs, theirs) if theirs > 0 else Weighted(float("nan"))


def summarize(sentences: Sequence[Mapping[str, Weighted]]) -> Figures:
    """Return each metric's mean and interval as `{name, name_ci95}`, or "not run: <why>" if too few sentences have a
    value."""
    found: Figures = {}
    for name in sentences[0]:
        found |= _summary(name, [sentence[name] for sentence in sentences])
    return found


def paired_below(ours: Doubles, theirs: Doubles, name: str) -> Figures:
    """Summarise how far our scores (S,) are below the recordings'."""
    return _summary(name, [Weighted(float(each)) for each in theirs - ours])


def _summary(name: str, parts: Sequence[Weighted]) -> Figures:
    known = np.array([part for part in parts if np.isfinite(part.value) and part.weight > 0]).reshape(-1, 2)
    if len(known) < max(FEWEST * len(parts), 1):
        return {name: f"not run: only {len(known)} of {len(parts)} sentences have a value"}
    values, weights = known.T
    interval = bootstrap(_mean, values * weights, weights)
    return estimate(name, _mean(values * weights, weights), interval, 4)


def _mean(weighted: Doubles, weights: Doubles, axis: int | None = None) -> Any:
    return weighted.sum(axis=axis) / weights.sum(axis=axis)
