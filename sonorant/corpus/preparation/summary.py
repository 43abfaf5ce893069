"""The figures of a prepared corpus, as JSON and as one HTML page that needs nothing beside it."""

from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np

from sonorant.audio.conditioning import ConditionConfig
from sonorant.corpus.manifest import SPLITS, Utterance
from sonorant.corpus.preparation.sound_summary import sound_sections, summarize_sound
from sonorant.corpus.preparation.speaker_summary import speakers_section
from sonorant.corpus.preparation.unplaced import unplaced_section
from sonorant.corpus.splits import describe_texts
from sonorant.pages.blocks import Section, Table, render
from sonorant.pages.charts import Chart, Charts, columns, histogram

SHOWN = 200
"""Rejected utterances on the page; `rejected.jsonl` has all."""
CHARACTERS = 40
"""Characters on the page, the most frequent."""
SHARES = {
    "splits": "split",
    "speakers": "speaker",
    "languages": "language",
    "sample_rates": "sample rate",
    "channels": "channels",
}


def summarize(accepted: list[Utterance], rejected: Counter[str], condition: ConditionConfig) -> dict[str, Any]:
    """Return the figures of the accepted utterances (at least one, all fields set) and the rejected ones by reason, as
    plain JSON.

    Durations in seconds, amounts in hours; a share has `utterances` and `hours`.
    """
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
    """Return characters of the spoken text by second, (U,) float64."""
    return np.array([len(utterance.spoken or "") / (utterance.seconds or 1.0) for utterance in utterances])


def shares(utterances: list[Utterance], key: Callable[[Utterance], str]) -> dict[str, dict[str, float]]:
    """By the utterances' keys, in order: `utterances` and `hours`. One pass, however many keys there are."""
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
    """Return the page for the figures `summary`, the accepted utterances with their levels in dB, the rejected rows,
    what had no place in a corpus of long recordings (None: it is none), and what was asked of conditioning."""
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
    """How often sentences repeat, and which held-out ones training has nearly read."""
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
    """Characters by frequency; the axis is logarithmic, so that the rare ones are seen."""
    names = [character if character.isprintable() and character != " " else "␣" for character, _ in frequent]
    labels = [(place + 0.5, name) for place, name in enumerate(names)]
    counts = [count for _, count in frequent]
    return columns(f"Characters: times (the {CHARACTERS} most frequent)", "", counts, labels, logarithmic=True)
