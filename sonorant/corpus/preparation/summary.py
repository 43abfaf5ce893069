"""Summarise a prepared corpus as JSON and as an HTML page."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sonorant.audio.arrays import Doubles
from sonorant.audio.conditioning import ConditionConfig
from sonorant.corpus.manifest import SPLITS, Utterance
from sonorant.corpus.preparation.outliers import find_outliers
from sonorant.corpus.splits import describe_texts
from sonorant.files import read_jsonl
from sonorant.pages.blocks import Part, Section, Table, render
from sonorant.pages.charts import Charts, columns, histogram

SHOWN = 200
"""Maximum number of rows per table on the page."""
CHARACTERS = 40
"""Maximum number of characters on the page, most frequent first."""
SHARES = {"splits": "split", "languages": "language", "sample_rates": "sample rate", "channels": "channels"}
MEASURES = {
    "snr_db": "Signal-to-noise ratio: speech above the noise floor, dB",
    "noise_floor_db": "Noise floor: dB of full scale",
    "reverberation": "Reverberation: seconds, estimated",
    "bandwidth_hz": "Bandwidth: highest frequency of speech, Hz",
    "hum_db": "Mains hum: dB above neighbouring frequencies",
    "clipped": "Clipped at full scale: fraction of samples",
    "soft_clipped": "Clipped below full scale: fraction of samples",
    "pitch_hz": "Pitch: median fundamental frequency, Hz",
    "dnsmos": "DNSMOS: overall, 1 to 5",
}
_QUANTILES = {"min": 0, "p5": 5, "median": 50, "p95": 95, "max": 100}


def summarize(
    accepted: Sequence[Utterance], rejected: Sequence[dict[str, Any]], condition: ConditionConfig
) -> dict[str, Any]:
    """Summarise accepted utterances (at least one, all fields set) and rejected ones (`reason`, `speaker`) as JSON."""
    reasons = Counter(str(row["reason"]) for row in rejected)
    characters = Counter(character for utterance in accepted for character in utterance.text)
    measures: list[Any] = [utterance.measures for utterance in accepted]
    return {
        "utterances": len(accepted),
        "hours": _hours(accepted),
        "rejected": {"utterances": len(rejected), "reasons": dict(reasons.most_common())},
        "texts": describe_texts(accepted),
        "splits": shares(accepted, "split", SPLITS),
        "speakers": summarize_speakers(accepted, [row["speaker"] for row in rejected]),
        "languages": shares(accepted, "language"),
        "sample_rates": shares(accepted, "sample_rate"),
        "channels": shares(accepted, "channels"),
        "seconds": _spread(utterance.seconds for utterance in accepted),
        "characters_per_second": _spread(speaking_rates(accepted)),
        "measures": {name: _spread(getattr(sound, name) for sound in measures) for name in MEASURES},
        "without_speech": [u.id for u, sound in zip(accepted, measures, strict=True) if not sound.speech_seconds],
        "conditioning": _conditioned(accepted, condition),
        "outliers": find_outliers(accepted),
        "characters": dict(sorted(characters.items(), key=lambda item: (-item[1], item[0]))),
    }


def speaking_rates(utterances: Sequence[Utterance]) -> list[float]:
    """Return each utterance's characters of spoken text per second."""
    return [len(utterance.spoken or "") / (utterance.seconds or 1.0) for utterance in utterances]


def shares(utterances: Iterable[Utterance], field: str, values: Sequence[str] = ()) -> dict[str, dict[str, float]]:
    """Return `utterances` and `hours` for each value of a field: first `values`, then any others, sorted."""
    groups = _grouped(utterances, field)
    order = dict.fromkeys([*values, *sorted(groups)])
    return {name: {"utterances": len(own := groups.get(name, [])), "hours": _hours(own)} for name in order}


def _grouped(utterances: Iterable[Utterance], field: str) -> dict[str, list[Utterance]]:
    groups: defaultdict[str, list[Utterance]] = defaultdict(list)
    for utterance in utterances:
        groups[str(getattr(utterance, field))].append(utterance)
    return groups


def summarize_speakers(accepted: Iterable[Utterance], rejected: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Summarise each speaker. Medians `snr_db` (dB) and `loudness` (LUFS before conditioning) may be None. `rejected`
    contains the speaker of each rejected utterance."""
    lost, by_speaker, found = Counter(rejected), _grouped(accepted, "speaker"), {}
    for speaker in sorted({*lost, *by_speaker}):
        own = by_speaker.get(speaker, [])
        splits = Counter(utterance.split for utterance in own)
        found[speaker] = {
            "utterances": len(own),
            "hours": _hours(own),
            "splits": {split: splits[split] for split in SPLITS},
            "snr_db": _median(u.measures.snr_db for u in own if u.measures),
            "loudness": _median(u.conditioning.before.loudness for u in own if u.conditioning),
            "rejected": lost[speaker],
        }
    return found


def _hours(utterances: Iterable[Utterance]) -> float:
    return round(sum(utterance.seconds or 0.0 for utterance in utterances) / 3600, 4)


def _known(values: Iterable[float | None]) -> Doubles:
    return np.array([value for value in values if value is not None], dtype=np.float64)


def _median(values: Iterable[float | None]) -> float | None:
    known = _known(values)
    return round(float(np.median(known)), 2) if len(known) else None


def _spread(values: Iterable[float | None]) -> dict[str, float] | None:
    known = _known(values)
    if not len(known):
        return None
    quantiles = np.percentile(known, list(_QUANTILES.values()))
    return {name: round(float(value), 6) for name, value in zip(_QUANTILES, quantiles, strict=True)}


def _conditioned(utterances: Sequence[Utterance], condition: ConditionConfig) -> dict[str, Any]:
    plans: list[Any] = [utterance.conditioning for utterance in utterances]
    target = -np.inf if condition.loudness is None else condition.loudness - 0.05
    return {
        "trimmed_seconds": round(sum(plan.trimmed for plan in plans), 3),
        "trimmed_utterances": sum(plan.trimmed > 0 for plan in plans),
        "shortened_seconds": round(sum(plan.shortened for plan in plans), 3),
        "shortened_utterances": sum(bool(plan.dropped) for plan in plans),
        "loudness_before": _spread(plan.before.loudness for plan in plans),
        "loudness_after": _spread(plan.after.loudness for plan in plans),
        "gain_db": _spread(plan.gain_db for plan in plans),
        "gain_lowered_utterances": sum((plan.after.loudness or 0.0) < target for plan in plans),
    }


def summary_page(
    summary: dict[str, Any],
    *,
    accepted: Sequence[tuple[Utterance, float]],
    rejected: Sequence[dict[str, str | None]],
    condition: ConditionConfig,
) -> str:
    """Return the HTML page. `accepted` contains utterances and their levels in dB."""
    utterances = [utterance for utterance, _ in accepted]
    histograms: dict[str, Iterable[float | None]] = {
        "Duration: seconds": [utterance.seconds for utterance in utterances],
        "Speaking rate: characters of the spoken text per second": speaking_rates(utterances),
        "Level: loudest 50 ms, dB of full scale": [level for _, level in accepted],
    }
    rows = [
        [f"{group} {name}", str(share["utterances"]), f"{share['hours']:.3f}"]
        for key, group in SHARES.items()
        for name, share in summary[key].items()
    ]
    frequent = list(summary["characters"].items())[:CHARACTERS]
    names = [character if character.isprintable() and character != " " else "␣" for character, _ in frequent]
    characters = columns(
        f"Characters: occurrences (the {CHARACTERS} most frequent)",
        "",
        [count for _, count in frequent],
        [(place + 0.5, name) for place, name in enumerate(names)],
        logarithmic=True,  # makes rare characters visible
    )
    table = Table(caption="Utterances", head=["", "utterances", "hours"], rows=rows)
    charts = Charts(charts=[*_histograms(histograms).charts, characters])
    sections = [
        Section(anchor="accepted", title="Accepted", parts=[*summary["warnings"], table, charts]),
        _speakers(summary["speakers"]),
        _sound(summary, utterances),
        _conditioning(summary["conditioning"], condition),
        _outliers(summary["outliers"]),
        _texts(summary["texts"]),
        _rejected(summary["rejected"], rejected),
    ]
    if lost := summary.get("unplaced"):
        found = f"{lost['seconds']:.0f} s of speech without a text and {lost['words']:.0f} words of text without speech"
        note = f"{found}; unplaced.jsonl of the corpus lists them."
        sections.append(Section(anchor="unplaced", title="Unplaced", parts=[note]))
    title = f"Corpus: {summary['utterances']} utterances, {summary['hours']:.2f} hours"
    return render(__package__, "summary.html", title=title, sections=sections)


def _histograms(values: dict[str, Iterable[float | None]]) -> Charts:
    charts = []
    for title, all_ in values.items():
        name, _, unit = title.partition(": ")
        if len(known := _known(all_)):
            charts.append(histogram(f"{name}: utterances", unit, known))
    return Charts(charts=charts)


def _speakers(speakers: dict[str, dict[str, Any]]) -> Section:
    rows = [
        [
            speaker,
            str(of["utterances"]),
            f"{60 * of['hours']:.1f}",
            *(str(of["splits"][split]) for split in SPLITS),
            *(None if of[name] is None else f"{of[name]:.1f}" for name in ("snr_db", "loudness")),
            str(of["rejected"]),
        ]
        for speaker, of in speakers.items()
    ]
    head = ["speaker", "utterances", "minutes", *SPLITS, "median SNR, dB", "median loudness, LUFS", "rejected"]
    return Section(
        anchor="speakers", title=f"Speakers: {len(rows)}", parts=[Table(caption="Speakers", head=head, rows=rows)]
    )


def _sound(summary: dict[str, Any], utterances: Sequence[Utterance]) -> Section:
    drawn: dict[str, Iterable[float | None]] = {
        title: [getattr(utterance.measures, name) for utterance in utterances] for name, title in MEASURES.items()
    }
    drawn["Loudness before conditioning: LUFS"] = [u.conditioning.before.loudness for u in utterances if u.conditioning]
    rows = [
        [title, *(f"{spread[name]:.6g}" for name in _QUANTILES)]
        for key, title in MEASURES.items()
        if (spread := summary["measures"][key])
    ]
    table = Table(
        caption="Measurements",
        head=["", "minimum", "5th percentile", "median", "95th percentile", "maximum"],
        rows=rows,
    )
    silent = summary["without_speech"]
    remark = [f"No speech was found in {len(silent)} recordings: {', '.join(silent[:10])}"] if silent else []
    return Section(anchor="sound", title="Sound", parts=[*remark, _histograms(drawn), table])


def _conditioning(done: dict[str, Any], condition: ConditionConfig) -> Section:
    def between(name: str, unit: str) -> str:
        spread = done[name]
        return f"{spread['min']:.1f} to {spread['max']:.1f} {unit}" if spread else "not measured"

    settings = {"margin": "s", "longest_pause": "s", "loudness": "LUFS", "true_peak": "dBTP maximum"}
    margin, pause, loudness, peak = (
        "off" if (value := getattr(condition, name)) is None else f"{value:g} {unit}" for name, unit in settings.items()
    )
    rows = [
        ["edges trimmed", margin, f"{done['trimmed_seconds']:.1f} s of {done['trimmed_utterances']} utterances"],
        ["pauses shortened", pause, f"{done['shortened_seconds']:.1f} s of {done['shortened_utterances']} utterances"],
        ["loudness", loudness, f"{between('loudness_before', 'LUFS')}, then {between('loudness_after', 'LUFS')}"],
        ["gain", peak, f"{between('gain_db', 'dB')}; reduced for the peak limit in {done['gain_lowered_utterances']}"],
    ]
    words = ["setting", "result"]
    note = "The files are unchanged: a recording is conditioned each time it is read."
    table = Table(caption="Conditioning", head=["", *words], rows=rows, prose=words)
    return Section(anchor="conditioning", title="Conditioning", parts=[note, table])


def _outliers(found: Sequence[dict[str, Any]]) -> Section:
    rows = [[row["id"], f"{row['deviations']:.1f}", row["words"]] for row in found]
    parts: list[Part] = ["Recordings unlike the others of their speaker. They are not rejected; listen to them."]
    parts += _table("Outliers", ["id", "deviations", "unusual"], rows, 1)
    return Section(anchor="outliers", title=f"Unlike the others: {len(found)}", parts=parts)


def _texts(texts: dict[str, Any]) -> Section:
    near = texts["near_duplicates"]
    rows = [
        ["different texts", str(texts["texts"])],
        ["utterances that share their text with others", str(texts["takes"])],
        ["held-out utterances whose text is in the training split", str(texts["held_out_read"])],
        ["held-out texts similar to one in the training split", str(len(near))],
    ]
    pairs = [[str(pair["words"]), pair["held_out"], pair["read"]] for pair in near]
    parts = [
        Table(caption="Texts and takes", head=["", "number"], rows=rows),
        *_table("Near-duplicates", ["differing words", "held out", "training"], pairs, 2),
    ]
    return Section(anchor="texts", title="Texts", parts=parts)


def _rejected(counts: dict[str, Any], rejected: Sequence[dict[str, str | None]]) -> Section:
    reasons = [[reason, str(count)] for reason, count in counts["reasons"].items()]
    rows = [[row["id"], row["reason"], row["file"], row["detail"]] for row in rejected]
    parts = _table("Reasons", ["reason", "utterances"], reasons, 0)
    parts += _table("Rejected utterances", ["id", "reason", "file", "details"], rows, 3)
    return Section(anchor="rejected", title=f"Rejected: {counts['utterances']}", parts=parts)


def _table(caption: str, head: list[str], rows: list[list[Any]], prose: int) -> list[Part]:
    if not rows:
        return []
    table = Table(caption=caption, head=head, rows=rows[:SHOWN], prose=head[len(head) - prose :])
    more = [f"and {len(rows) - SHOWN} more; the files next to this page list all"] if len(rows) > SHOWN else []
    return [table, *more]


def summarize_unplaced(corpus: Path) -> dict[str, float] | None:
    """Sum the seconds of speech without text and the words without speech, if the corpus lists them."""
    file = corpus / "unplaced.jsonl"
    if not file.exists():
        return None
    rows = read_jsonl(file)
    return {
        "seconds": round(sum(row["end"] - row["start"] for row in rows if "start" in row), 3),
        "words": sum(row["words"] for row in rows if "words" in row),
    }
