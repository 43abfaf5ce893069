r"""Summary of a corpus' sound: measurements, effect of conditioning, and outliers.

Outliers may have another room, microphone or voice. Each figure is compared with the speaker's median and median
absolute deviation (B. Iglewicz, D. Hoaglin, "How to detect and handle outliers", ASQC 1993). Below 3 s of speech a
deviation counts less, by the root of the seconds, as few words hold few sounds.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from sonorant.audio.arrays import Doubles
from sonorant.audio.conditioning import ConditionConfig, Conditioning
from sonorant.audio.measures import Measures
from sonorant.corpus.manifest import Utterance
from sonorant.pages.blocks import Part, Section, Table
from sonorant.pages.charts import Chart, Charts, histogram

FEWEST = 20
"""Minimum recordings of a speaker."""
UNUSUAL = 4.0
"""Deviations from the median of an outlier."""
_SHRINKAGE = 0.3
_TO_SIGMA = 1.4826  # standard deviation over median absolute deviation of a normal distribution


@dataclass(frozen=True, kw_only=True)
class Recording:
    id: str
    speaker: str
    measures: Measures
    loudness: float | None
    """LUFS, before conditioning."""


@dataclass(frozen=True, kw_only=True)
class Outlier:
    id: str
    deviations: float
    """Of the most unusual figure."""
    words: str
    """Each unusual figure, most unusual first, with the middle 90 % of the others."""


@dataclass(frozen=True)
class _Figure:
    name: str
    unit: str
    of: Callable[[Recording], float | None]
    least: float
    """Smallest audible deviation, after `scale`."""
    scale: Callable[[Doubles], Doubles] = np.asarray
    low: str = ""
    high: str = ""
    """Possible meaning of a value below or above the others."""


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
    """Outliers among speakers with at least `FEWEST` recordings, most unusual first."""
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
    """Recordings whose average spectrum is far from the speaker's median: Mahalanobis distance, with the covariance
    shrunk towards a sphere (O. Ledoit, M. Wolf, 2004)."""
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
    """Weight of a deviation, float64 (R,) from 0 to 1, by the seconds of speech."""
    return np.sqrt(np.minimum(np.array([recording.measures.speech_seconds for recording in recordings]) / 3, 1))


def _deviations(values: Doubles, least: float) -> Doubles:
    """Distances from the median in robust standard deviations of at least `least`."""
    distances = values - np.median(values)
    return distances / max(_TO_SIGMA * float(np.median(np.abs(distances))), least)


SHOWN = 100
"""Outliers on the page; `summary.json` has all."""
FIGURES: dict[str, tuple[str, Callable[[Measures], float | None]]] = {
    "snr_db": ("Signal-to-noise ratio: speech over the noise floor, dB", lambda m: m.snr_db),
    "noise_floor_db": ("Noise floor: dB of full scale", lambda m: m.noise_floor_db),
    "reverberation": ("Reverberation: seconds, estimated", lambda m: m.reverberation),
    "bandwidth_hz": ("Bandwidth: highest frequency of the speech, Hz", lambda m: m.bandwidth_hz),
    "hum_db": ("Mains hum: dB over what is beside it", lambda m: m.hum_db),
    "clipped": ("Clipped at full scale: fraction of the samples", lambda m: m.clipped),
    "soft_clipped": ("Clipped below full scale: fraction of the samples", lambda m: m.soft_clipped),
    "pitch_hz": ("Pitch: median fundamental frequency, Hz", lambda m: m.pitch_hz),
    "dnsmos": ("DNSMOS: overall, 1 to 5", lambda m: m.dnsmos),
}
"""Title with unit, and value."""
DRAWN = ("snr_db", "noise_floor_db", "reverberation", "bandwidth_hz", "hum_db", "pitch_hz", "dnsmos")


def summarize_sound(accepted: Sequence[Utterance], condition: ConditionConfig) -> dict[str, Any]:
    """Percentiles of each measurement, totals of the conditioning and outliers, as plain JSON, of at least one
    utterance with all fields set. A measurement without values is None."""
    measures, plans = _measures(accepted), _plans(accepted)
    recordings = [
        Recording(id=utterance.id, speaker=utterance.speaker, measures=sound, loudness=plan.before.loudness)
        for utterance, sound, plan in zip(accepted, measures, plans, strict=True)
    ]
    return {
        "measures": {name: _spread(_known(measures, of)) for name, (_, of) in FIGURES.items()},
        "without_speech": [u.id for u, sound in zip(accepted, measures, strict=True) if not sound.speech_seconds],
        "conditioning": _conditioned(plans, condition),
        "outliers": [asdict(outlier) for outlier in find_outliers(recordings)],
    }


def sound_sections(summary: dict[str, Any], accepted: Sequence[Utterance], condition: ConditionConfig) -> list[Section]:
    measures, plans = _measures(accepted), _plans(accepted)
    charts = [_chart(FIGURES[name][0], _known(measures, FIGURES[name][1])) for name in DRAWN]
    charts.append(_chart("Loudness before conditioning: LUFS", _present([plan.before.loudness for plan in plans])))
    names = ("min", "p5", "median", "p95", "max")
    rows = [
        [title, *(f"{spread[name]:.6g}" for name in names)]
        for key, (title, _) in FIGURES.items()
        if (spread := summary["measures"][key])
    ]
    table = Table(caption="Measured", head=["", "least", "5 % below", "median", "5 % above", "most"], rows=rows)
    silent = summary["without_speech"]
    remark = [f"In {len(silent)} recordings no speech was found: {', '.join(silent[:10])}"] if silent else []
    return [
        Section(
            anchor="sound", title="Sound", parts=[*remark, Charts(charts=[chart for chart in charts if chart]), table]
        ),
        _conditioning(summary["conditioning"], condition),
        _outliers(summary["outliers"]),
    ]


def _conditioned(plans: Sequence[Conditioning], condition: ConditionConfig) -> dict[str, Any]:
    gains = np.array([plan.gain_db for plan in plans])
    target = -np.inf if condition.loudness is None else condition.loudness - 0.05
    return {
        "trimmed_seconds": round(sum(plan.trimmed for plan in plans), 3),
        "trimmed_utterances": sum(plan.trimmed > 0 for plan in plans),
        "shortened_seconds": round(sum(plan.shortened for plan in plans), 3),
        "shortened_utterances": sum(bool(plan.dropped) for plan in plans),
        "largest_dc": max((abs(plan.before.dc) for plan in plans), default=0.0),
        "gain_db": _spread(gains),
        "gain_lowered_utterances": sum((plan.after.loudness or 0.0) < target for plan in plans),
        "loudness_before": _spread(_present([plan.before.loudness for plan in plans])),
        "loudness_after": _spread(_present([plan.after.loudness for plan in plans])),
        "true_peak_before": _spread(_present([plan.before.true_peak for plan in plans])),
        "true_peak_after": _spread(_present([plan.after.true_peak for plan in plans])),
    }


def _conditioning(done: dict[str, Any], condition: ConditionConfig) -> Section:
    def between(name: str, unit: str) -> str:
        spread = done[name]
        return f"{spread['min']:.1f} to {spread['max']:.1f} {unit}" if spread else "not measurable"

    def setting(value: float | None, unit: str) -> str:
        return "off" if value is None else f"{value:g} {unit}"

    rows = [
        ["edges trimmed to a margin", setting(condition.margin, "s"),
         f"{done['trimmed_seconds']:.1f} s of {done['trimmed_utterances']} utterances"],
        ["pauses shortened", setting(condition.longest_pause, "s"),
         f"{done['shortened_seconds']:.1f} s of {done['shortened_utterances']} utterances"],
        ["offset removed", "on" if condition.remove_dc else "off", f"up to {done['largest_dc']:.2g} of full scale"],
        ["loudness", setting(condition.loudness, "LUFS"),
         f"{between('loudness_before', 'LUFS')}, then {between('loudness_after', 'LUFS')}"],
        ["true peak", setting(condition.true_peak, "dBTP at most"),
         f"{between('true_peak_before', 'dBTP')}, then {between('true_peak_after', 'dBTP')}"],
        ["gain", "", f"{between('gain_db', 'dB')}; of {done['gain_lowered_utterances']} lowered for the peak"],
    ]  # fmt: skip
    words = ["setting", "done"]
    said = "The recordings stay as they are: this is done whenever one is heard or learned from."
    table = Table(caption="Conditioning", head=["", *words], rows=rows, prose=words)
    return Section(anchor="conditioning", title="Conditioning", parts=[said, table])


def _outliers(found: Sequence[dict[str, Any]]) -> Section:
    rows = [[row["id"], f"{row['deviations']:.1f}", row["words"]] for row in found[:SHOWN]]
    said = "Recordings unlike the others of their speaker. None is rejected for it; listen to them."
    table = Table(caption="Outliers", head=["id", "deviations", "unusual"], rows=rows, prose=["unusual"])
    more = [f"and {len(found) - SHOWN} more in summary.json"] if len(found) > SHOWN else []
    parts: list[Part] = [said, table, *more] if found else ["No recording is unlike the others of its speaker."]
    return Section(anchor="outliers", title=f"Unlike the others: {len(found)}", parts=parts)


def _chart(title: str, values: Doubles) -> Chart | None:
    name, _, unit = title.partition(": ")
    return histogram(f"{name}: utterances", unit, values) if len(values) else None


def _measures(utterances: Sequence[Utterance]) -> list[Measures]:
    return [utterance.measures for utterance in utterances if utterance.measures is not None]


def _plans(utterances: Sequence[Utterance]) -> list[Conditioning]:
    return [utterance.conditioning for utterance in utterances if utterance.conditioning is not None]


def _known(measures: Sequence[Measures], of: Callable[[Measures], float | None]) -> Doubles:
    return _present([of(sound) for sound in measures])


def _present(values: Sequence[float | None]) -> Doubles:
    return np.array([value for value in values if value is not None], dtype=np.float64)


def _spread(values: Doubles) -> dict[str, float] | None:
    if not len(values):
        return None
    names = ("min", "p5", "median", "p95", "max")
    quantiles = np.percentile(values, [0, 5, 50, 95, 100])
    return {name: round(float(value), 6) for name, value in zip(names, quantiles, strict=True)}
