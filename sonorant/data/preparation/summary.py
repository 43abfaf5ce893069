"""The figures of a prepared corpus. Knows nothing of how they are shown.

The summary as one HTML page that needs nothing beside it. Computes no figure but the bars of its histograms."""

from __future__ import annotations

import html
import io
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from sonorant.data.manifest import SPLITS, Utterance


def summarize(accepted: list[Utterance], rejected: Counter[str]) -> dict[str, Any]:
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
        "splits": {split: _share([u for u in accepted if u.split == split]) for split in SPLITS},
        "speakers": _shares(accepted, lambda utterance: utterance.speaker),
        "languages": _shares(accepted, lambda utterance: utterance.language),
        "sample_rates": _shares(accepted, lambda utterance: str(utterance.sample_rate)),
        "seconds": _spread(seconds),
        "characters_per_second": _spread(speaking_rates(accepted)),
        "characters": dict(sorted(characters.items(), key=lambda item: (-item[1], item[0]))),
    }


def speaking_rates(utterances: list[Utterance]) -> np.ndarray:
    """Return characters of the spoken text by second, (U,) float64."""
    return np.array([len(utterance.spoken or "") / (utterance.seconds or 1.0) for utterance in utterances])


def _shares(utterances: list[Utterance], key: Callable[[Utterance], str]) -> dict[str, dict[str, float]]:
    return {name: _share([u for u in utterances if key(u) == name]) for name in sorted({key(u) for u in utterances})}


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


_MOST_REJECTED = 200
_MOST_CHARACTERS = 60
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
table { border-collapse: collapse; margin: .5rem 0 1.5rem; }
td, th { padding: .2rem .9rem .2rem 0; text-align: left; vertical-align: top; border-bottom: 1px solid #ddd; }
.charts { display: flex; flex-wrap: wrap; gap: 1rem; }
.charts svg { width: 30rem; max-width: 100%; height: auto; }
"""


def summary_page(
    summary: dict[str, Any], *, accepted: list[tuple[Utterance, float]], rejected: list[dict[str, str | None]]
) -> str:
    """Return the page for the figures `summary`, the accepted utterances with their levels (dB) and the rejected
    rows."""
    utterances = [utterance for utterance, _ in accepted]
    charts = [
        _histogram([utterance.seconds or 0.0 for utterance in utterances], "Duration", "seconds"),
        _histogram(speaking_rates(utterances), "Speaking rate", "characters of the spoken text by second"),
        _histogram([level for _, level in accepted], "Level", "loudest 50 ms, dB of full scale"),
        _bars(
            dict(list(summary["characters"].items())[:_MOST_CHARACTERS]),
            f"Characters (the {_MOST_CHARACTERS} most frequent)",
        ),
    ]
    shares = [
        [group, name, share["utterances"], f"{share['hours']:.3f}"]
        for group, key in (
            ("split", "splits"),
            ("speaker", "speakers"),
            ("language", "languages"),
            ("sample rate", "sample_rates"),
        )
        for name, share in summary[key].items()
    ]
    reasons = [[reason, count] for reason, count in summary["rejected"]["reasons"].items()]
    rows = [[row["id"], row["file"], row["reason"], row["detail"]] for row in rejected[:_MOST_REJECTED]]
    more = f"<p>and {len(rejected) - len(rows)} more in rejected.jsonl</p>" if len(rejected) > len(rows) else ""
    return "\n".join(
        [
            f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Corpus</title><style>{_STYLE}</style></head><body>',
            f"<h1>Corpus: {summary['utterances']} utterances, {summary['hours']:.2f} hours</h1>",
            _table(["", "", "utterances", "hours"], shares),
            f'<div class="charts">{"".join(charts)}</div>',
            f"<h2>Rejected: {summary['rejected']['utterances']}</h2>",
            _table(["reason", "utterances"], reasons) if reasons else "",
            _table(["id", "file", "reason", "found"], rows) + more if rows else "",
            "</body></html>\n",
        ]
    )


def _table(head: list[str], rows: list[list[Any]]) -> str:
    def line(cells: list[Any], tag: str) -> str:
        return (
            "<tr>"
            + "".join(f"<{tag}>{html.escape('' if cell is None else str(cell))}</{tag}>" for cell in cells)
            + "</tr>"
        )

    return "<table>" + "".join([line(head, "th"), *(line(row, "td") for row in rows)]) + "</table>"


def _histogram(values: Iterable[float], title: str, unit: str) -> str:
    figure, axes = _axes(title)
    axes.hist(list(values), bins=40, color="#4878a8")
    axes.set_xlabel(unit)
    axes.set_ylabel("utterances")
    return _svg(figure)


def _bars(counts: dict[str, int], title: str) -> str:
    figure, axes = _axes(title)
    names = [character if character.isprintable() and character != " " else "␣" for character in counts]
    axes.bar(range(len(counts)), list(counts.values()), color="#4878a8")
    axes.set_xticks(range(len(counts)), names, fontsize=6, parse_math=False)
    axes.set_yscale("log")
    axes.set_ylabel("times")
    return _svg(figure)


def _axes(title: str) -> tuple[Any, Any]:
    from matplotlib.figure import Figure  # without pyplot: no window system is asked for

    figure = Figure(figsize=(6, 3), layout="constrained")
    axes = figure.subplots()
    axes.set_title(title)
    return figure, axes


def _svg(figure: Any) -> str:
    """Return the figure as an SVG element, the same bytes each time: no date, no random ids."""
    import matplotlib

    buffer = io.StringIO()
    # text as text: glyphs as paths need a font that has them, a browser finds one
    with matplotlib.rc_context({"svg.hashsalt": "sonorant", "svg.fonttype": "none"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue().split("?>", 1)[1].split(">", 1)[1]
