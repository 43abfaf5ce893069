"""What the recordings of a corpus sound like, what conditioning does to them, and which are unlike the others."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from sonorant.audio.arrays import Doubles
from sonorant.audio.conditioning import ConditionConfig, Conditioning
from sonorant.audio.measures import Measures
from sonorant.corpus.manifest import Utterance
from sonorant.corpus.preparation.outliers import Recording, find_outliers
from sonorant.pages.blocks import Part, Section, Table
from sonorant.pages.charts import Chart, Charts, histogram

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
"""Figures with their title and unit, as they are shown."""
DRAWN = ("snr_db", "noise_floor_db", "reverberation", "bandwidth_hz", "hum_db", "pitch_hz", "dnsmos")


def summarize_sound(accepted: Sequence[Utterance], condition: ConditionConfig) -> dict[str, Any]:
    """Percentiles of each measure, totals of the conditioning and the outliers, as plain JSON.

    The utterances, at least one, have all fields set. A measure is None where no recording shows it.
    """
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
    """The page's sections: distributions, conditioning, outliers. `summary`: of `summarize_sound`."""
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
    """Percentiles of some values; None of none."""
    if not len(values):
        return None
    names = ("min", "p5", "median", "p95", "max")
    quantiles = np.percentile(values, [0, 5, 50, 95, 100])
    return {name: round(float(value), 6) for name, value in zip(names, quantiles, strict=True)}
