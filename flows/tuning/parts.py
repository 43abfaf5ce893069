"""Per-sentence metrics of a trial, so that comparisons can be paired by sentence."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from flows.tuning.figures import METRICS, Figure, NoFigure
from sonorant.files import read_jsonl

EVALUATION = METRICS.parent / "evaluation"
NOT_SHORT = ("sentences", "held_out", "cut_words")
"""Kinds of rows in short_texts.jsonl that do not count as short texts."""
ROUNDED = 2e-3
"""Maximum relative rounding error between a metric and the total of its parts."""

Part = tuple[float, float]
"""A sentence's contribution to a metric (sum, weight); the metric is the ratio of the totals."""


def details_of(where: Path, names: list[str]) -> dict[str, Any]:
    """Return each metric in the project `where` as `value`, `ci95` (or None) and `parts` (or None), or as `not_run`
    with the reason."""
    found: dict[str, Any] = {}
    for name in names:
        try:
            value, interval = Figure(name).measure(where)
        except NoFigure as error:
            found[name] = {"not_run": str(error)}
            continue
        found[name] = {"value": value, "ci95": interval, "parts": parts_of(where, name, value)}
    return found


def parts_of(where: Path, name: str, value: float) -> list[Part] | None:
    """Return each sentence's part of a metric, or None if the file of parts is missing or the parts do not add up to
    `value`."""
    group, _, rest = name.partition(".")
    by, _, figure = rest.partition(".")
    file, read = ("short_texts.jsonl", _short_text) if group == "short_texts" else ("sentences.jsonl", _sentence)
    if not (where / EVALUATION / file).exists():
        return None
    reading: Callable[[dict[str, Any], str, str], Part | None] = read
    rows = [reading(row, by, f"{group}.{figure}") for row in read_jsonl(where / EVALUATION / file)]
    parts = [part for part in rows if part is not None]
    weight = sum(weight for _, weight in parts)
    if not weight or abs(sum(each for each, _ in parts) / weight - value) > ROUNDED * max(1.0, abs(value)):
        return None
    return parts


def _sentence(row: dict[str, Any], by: str, figure: str) -> Part | None:
    errors, rated = row.get("word_errors", {}), row.get("dnsmos", {})
    if by in errors and figure == "intelligibility.wer":
        return 100.0 * errors[by], float(row["words"])
    if by in errors and figure == "intelligibility.above_recordings.wer":
        return 100.0 * (errors[by] - errors["recordings"]), float(row["words"])
    if by in rated and figure == "naturalness.dnsmos.ovrl":
        return rated[by], 1.0
    if by in rated and figure == "naturalness.dnsmos_below_recordings":
        return rated["recordings"] - rated[by], 1.0
    return None


def _short_text(row: dict[str, Any], by: str, figure: str) -> Part | None:
    kind = figure.removeprefix("short_texts.").removesuffix(".faulty_rate")
    of_kind = row["kind"] not in NOT_SHORT if kind == "short" else row["kind"] == kind
    if row["by"] != by or not of_kind or not figure.endswith(".faulty_rate"):
        return None
    return float(any(row["faults"].values())), 1.0
