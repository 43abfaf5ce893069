"""Summary of a prepared corpus, as JSON and as one HTML page."""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sonorant.audio.conditioning import ConditionConfig
from sonorant.corpus.manifest import SPLITS, Utterance
from sonorant.corpus.preparation.sound_summary import sound_sections, summarize_sound
from sonorant.corpus.splits import describe_texts
from sonorant.files import read_jsonl
from sonorant.pages.blocks import Section, Table, render
from sonorant.pages.charts import Chart, Charts, columns, histogram

SHOWN = 200
"""Rows of a table on the page; the files have all."""
CHARACTERS = 40
"""Most frequent characters on the page."""
SHARES = {
    "splits": "split",
    "speakers": "speaker",
    "languages": "language",
    "sample_rates": "sample rate",
    "channels": "channels",
}


def summarize(accepted: list[Utterance], rejected: Counter[str], condition: ConditionConfig) -> dict[str, Any]:
    """Figures of accepted utterances (at least one, all fields set) and counts of reasons, as plain JSON: seconds,
    hours, and shares with `utterances` and `hours`."""
    seconds = np.array([utterance.seconds for utterance in accepted])
    characters = Counter(character for utterance in accepted for character in utterance.text)
    return {
        "utterances": len(accepted),
        "hours": _hours(accepted),
        "rejected": {"utterances": rejected.total(), "reasons": dict(rejected.most_common())},
        "texts": describe_texts(accepted),
        "splits": dict.fromkeys(SPLITS, _share([])) | shares(accepted, lambda utterance: str(utterance.split)),
        "speakers": shares(accepted, lambda utterance: utterance.speaker),
        "languages": shares(accepted, lambda utterance: utterance.language),
        "sample_rates": shares(accepted, lambda utterance: str(utterance.sample_rate)),
        "channels": shares(accepted, lambda utterance: str(utterance.channels)),
        "seconds": _spread(seconds),
        "characters_per_second": _spread(speaking_rates(accepted)),
        "sound": summarize_sound(accepted, condition),
        "characters": dict(sorted(characters.items(), key=lambda item: (-item[1], item[0]))),
    }


def speaking_rates(utterances: list[Utterance]) -> np.ndarray:
    """Characters of the spoken text per second, (U,) float64."""
    return np.array([len(utterance.spoken or "") / (utterance.seconds or 1.0) for utterance in utterances])


def shares(utterances: list[Utterance], key: Callable[[Utterance], str]) -> dict[str, dict[str, float]]:
    """`utterances` and `hours` by key, sorted."""
    groups: defaultdict[str, list[Utterance]] = defaultdict(list)
    for utterance in utterances:
        groups[key(utterance)].append(utterance)
    return {name: _share(groups[name]) for name in sorted(groups)}


def _share(utterances: list[Utterance]) -> dict[str, float]:
    return {"utterances": len(utterances), "hours": _hours(utterances)}


def _hours(utterances: list[Utterance]) -> float:
    return round(sum(utterance.seconds or 0.0 for utterance in utterances) / 3600, 4)


def _spread(values: np.ndarray) -> dict[str, float]:
    names = ("min", "p5", "median", "p95", "max")
    quantiles = np.percentile(values, [0, 5, 50, 95, 100])
    return {name: round(float(value), 3) for name, value in zip(names, quantiles, strict=True)} | {
        "mean": round(float(values.mean()), 3)
    }


def summary_page(
    summary: dict[str, Any],
    *,
    accepted: list[tuple[Utterance, float]],
    rejected: list[dict[str, str | None]],
    unplaced: list[dict[str, Any]] | None,
    condition: ConditionConfig,
) -> str:
    """The page. `accepted`: utterances with their levels in dB; `unplaced`: as `read_unplaced`."""
    utterances = [utterance for utterance, _ in accepted]
    seconds = np.array([utterance.seconds or 0.0 for utterance in utterances])
    frequent = list(summary["characters"].items())[:CHARACTERS]
    charts = [
        histogram("Duration: utterances", "seconds", seconds),
        histogram("Speaking rate: utterances", "characters of the spoken text a second", speaking_rates(utterances)),
        histogram("Level: utterances", "loudest 50 ms, dB of full scale", np.array([level for _, level in accepted])),
        _characters(frequent),
    ]
    shares = [
        [f"{group} {name}", str(share["utterances"]), f"{share['hours']:.3f}"]
        for key, group in SHARES.items()
        for name, share in summary[key].items()
    ]
    reasons = [[reason, str(count)] for reason, count in summary["rejected"]["reasons"].items()]
    rows = [[row["id"], row["reason"], row["file"], row["detail"]] for row in rejected[:SHOWN]]
    parts = [Table(caption="Reasons", head=["reason", "utterances"], rows=reasons)] if reasons else []
    if rows:
        words = ["reason", "file", "found"]
        parts.append(Table(caption="Rejected utterances", head=["id", *words], rows=rows, prose=words))
    more = [f"and {len(rejected) - SHOWN} more in rejected.jsonl"] if len(rejected) > SHOWN else []
    table = Table(caption="Utterances", head=["", "utterances", "hours"], rows=shares)
    sections = [
        Section(anchor="accepted", title="Accepted", parts=[*summary["warnings"], table, Charts(charts=charts)]),
        speakers_section(summary["by_speaker"]),
        *sound_sections(summary["sound"], utterances, condition),
        _texts(summary["texts"]),
        Section(anchor="rejected", title=f"Rejected: {summary['rejected']['utterances']}", parts=[*parts, *more]),
        *([] if unplaced is None else [unplaced_section(unplaced)]),
    ]
    title = f"Corpus: {summary['utterances']} utterances, {summary['hours']:.2f} hours"
    return render(__package__, "summary.html", title=title, sections=sections)


def _texts(texts: dict[str, Any]) -> Section:
    near = texts["near_duplicates"]
    rows = [
        ["different texts", str(texts["texts"])],
        ["utterances whose text others have too", str(texts["takes"])],
        ["held-out utterances whose text training reads", str(texts["held_out_read"])],
        ["held-out texts nearly like one that training reads", str(len(near))],
    ]
    parts = [Table(caption="Texts and takes", head=["", "number"], rows=rows)]
    if near:
        words = ["held out", "read in training"]
        pairs = [[str(pair["words"]), pair["held_out"], pair["read"]] for pair in near[:SHOWN]]
        parts.append(Table(caption="Near-duplicates", head=["words that differ", *words], rows=pairs, prose=words))
    return Section(anchor="texts", title="Texts", parts=parts)


def _characters(frequent: list[tuple[str, int]]) -> Chart:
    """The axis is logarithmic, to show rare characters."""
    names = [character if character.isprintable() and character != " " else "␣" for character, _ in frequent]
    labels = [(place + 0.5, name) for place, name in enumerate(names)]
    counts = [count for _, count in frequent]
    return columns(f"Characters: times (the {CHARACTERS} most frequent)", "", counts, labels, logarithmic=True)


def summarize_speakers(accepted: Sequence[Utterance], rejected: Sequence[str]) -> dict[str, dict[str, Any]]:
    """By speaker: `utterances`, `hours`, `splits`, `rejected`, and the medians `snr_db` (dB) and `loudness` (LUFS
    before conditioning), None without values. `rejected`: the speaker of each rejected utterance."""
    lost = Counter(rejected)
    by_speaker: defaultdict[str, list[Utterance]] = defaultdict(list)
    for utterance in accepted:
        by_speaker[utterance.speaker].append(utterance)
    found = {}
    for speaker in sorted({*lost, *by_speaker}):
        own = by_speaker[speaker]
        splits = Counter(utterance.split for utterance in own)
        found[speaker] = {
            "utterances": len(own),
            "hours": round(sum(utterance.seconds or 0.0 for utterance in own) / 3600, 4),
            "splits": {split: splits[split] for split in SPLITS},
            "snr_db": _median([u.measures.snr_db for u in own if u.measures]),
            "loudness": _median([u.conditioning.before.loudness for u in own if u.conditioning]),
            "rejected": lost[speaker],
        }
    return found


def speakers_section(speakers: dict[str, dict[str, Any]]) -> Section:
    rows = [
        [
            speaker,
            str(of["utterances"]),
            f"{60 * of['hours']:.1f}",
            *(str(of["splits"][split]) for split in SPLITS),
            "-" if of["snr_db"] is None else f"{of['snr_db']:.1f}",
            "-" if of["loudness"] is None else f"{of['loudness']:.1f}",
            str(of["rejected"]),
        ]
        for speaker, of in speakers.items()
    ]
    head = ["speaker", "utterances", "minutes", *SPLITS, "median SNR, dB", "median loudness, LUFS", "rejected"]
    return Section(
        anchor="speakers", title=f"Speakers: {len(rows)}", parts=[Table(caption="Speakers", head=head, rows=rows)]
    )


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(float(np.median(known)), 2) if known else None


def read_unplaced(corpus: Path) -> list[dict[str, Any]] | None:
    """Rows of unplaced.jsonl (speech without text, text without speech); None if the corpus has no such file. Raises
    SonorantError naming file and line."""
    file = corpus / "unplaced.jsonl"
    return read_jsonl(file) if file.exists() else None


def summarize_unplaced(rows: Sequence[dict[str, Any]]) -> dict[str, float]:
    """`seconds` of speech and `words` of text."""
    return {
        "seconds": round(sum(row["end"] - row["start"] for row in rows if "start" in row), 3),
        "words": sum(row["words"] for row in rows if "words" in row),
    }


def unplaced_section(rows: Sequence[dict[str, Any]]) -> Section:
    speech = sorted((row for row in rows if "start" in row), key=lambda row: row["start"] - row["end"])
    texts = sorted((row for row in rows if "words" in row), key=lambda row: -row["words"])
    parts: list[Table | str] = []
    if speech:
        found = [
            [row["name"], f"{row['start']:.1f}", f"{row['end']:.1f}", row["heard"], row["why"]]
            for row in speech[:SHOWN]
        ]
        head = ["recording", "from, s", "to, s", "heard", "why"]
        parts.append(Table(caption="Speech without a text", head=head, rows=found, prose=["heard", "why"]))
    if texts:
        lost = [[row["name"], str(row["words"]), row["text"], row["why"]] for row in texts[:SHOWN]]
        head = ["recording", "words", "text", "why"]
        parts.append(Table(caption="Text without speech", head=head, rows=lost, prose=["text", "why"]))
    if len(speech) > SHOWN or len(texts) > SHOWN:
        parts.append("All of them are in the corpus' unplaced.jsonl.")
    total = summarize_unplaced(rows)
    title = f"Without a place: {total['seconds']:.0f} s of speech, {total['words']:.0f} words"
    return Section(anchor="unplaced", title=title, parts=parts)
