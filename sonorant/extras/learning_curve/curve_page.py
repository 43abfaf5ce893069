"""A learning curve as JSON and as one self-contained HTML page."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from sonorant.extras.learning_curve.conclusions import Measure, forecast_sentence, gain_sentence
from sonorant.extras.learning_curve.fit import Curve
from sonorant.extras.learning_curve.points import paired
from sonorant.extras.learning_curve.tuned import Tuned, tuned_section
from sonorant.pages.blocks import Part, Section, Table, render
from sonorant.pages.charts import Chart, Charts, points

SAMPLED = 60
"""Number of points to draw the fitted line with."""

Found = Mapping[Measure, Curve | str]
"""Curve of each metric, or the reason why there is none."""


def as_json(
    study: str, found: Found, more: float, notes: Sequence[str] = (), source: str = "", tuned: Tuned | None = None
) -> dict[str, Any]:
    """Return the contents of `reports/curve.json`. `source`: base voice of the fine-tuned voices; `tuned`: their
    advantages. Raises SonorantError if `more` is too large."""
    figures: dict[str, dict[str, Any]] = {
        measure.name: {"not_run": curve} if isinstance(curve, str) else _as_json(curve, measure, more)
        for measure, curve in found.items()
    }
    for measure, advantages in (tuned or {}).items():
        told = advantages if isinstance(advantages, str) else [asdict(each) for each in advantages]
        figures[measure.name]["fine_tuned"] = told
    began = {"init_from": source} if tuned else {}
    return {"study": study, "figures": figures, "notes": list(notes), **began}


def _as_json(curve: Curve, measure: Measure, more: float) -> dict[str, Any]:
    rows = [
        {"minutes": point.minutes, "mean": point.mean, "ci95": ends, "values": point.values}
        for point, ends in zip(curve.points, curve.ci95, strict=True)
    ]
    law: dict[str, Any] = {"not_run": curve.why_none}
    if curve.law is not None:
        law = {name: float(getattr(curve.law, name)[0]) for name in ("a", "b", "c")}
    forecast = curve.forecast(more)
    return {
        "points": rows,
        "paired_by_sentence": paired(curve.points),
        "gain": {"difference": curve.gain, "ci95": curve.gain_ci95, "sentence": gain_sentence(curve, measure)},
        "power_law": law,
        "forecast": {"sentence": forecast_sentence(curve, measure, more)} | (asdict(forecast) if forecast else {}),
    }


def sentences_of(found: Found, more: float) -> list[str]:
    told = []
    for measure, curve in found.items():
        if isinstance(curve, str):
            told.append(f"{measure.words}: {curve}.")
        else:
            told += [gain_sentence(curve, measure), forecast_sentence(curve, measure, more)]
    return told


def curve_page(
    study: str, found: Found, more: float, notes: Sequence[str] = (), source: str = "", tuned: Tuned | None = None
) -> str:
    sections = [Section(anchor="says", title="What more recordings bring", parts=[*sentences_of(found, more), *notes])]
    for number, (measure, curve) in enumerate(found.items(), 1):
        parts: list[Part] = [f"{curve}."] if isinstance(curve, str) else _parts(curve, measure, more)
        sections.append(Section(anchor=f"figure-{number}", title=measure.words.capitalize(), parts=parts))
    sections += tuned_section(source, tuned or {})
    return render(__package__, "curve.html", title=f"Learning curve '{study}'", sections=sections)


def _parts(curve: Curve, measure: Measure, more: float) -> list[Part]:
    head = ["minutes", "seeds", "mean", "95 % interval", "each seed"]
    rows = [
        [
            f"{point.minutes:.1f}",
            str(len(point.values)),
            f"{measure.scale * point.mean:.3g}",
            "{:.3g} to {:.3g}".format(*(measure.scale * end for end in ends)),
            ", ".join(f"{measure.scale * value:.3g}" for value in point.values),
        ]
        for point, ends in zip(curve.points, curve.ci95, strict=True)
    ]
    covers = "Intervals cover other seeds and other sentences"
    how = "resampled together for all sizes" if paired(curve.points) else "resampled separately for each size"
    chart = Charts(charts=[_chart(curve, measure, more)])
    return [chart, Table(caption=measure.name, head=head, rows=rows), f"{covers}, {how}."]


def _chart(curve: Curve, measure: Measure, more: float) -> Chart:
    rows = [
        (point.minutes, measure.scale * point.mean, measure.scale * low, measure.scale * high)
        for point, (low, high) in zip(curve.points, curve.ci95, strict=True)
    ]
    line: list[tuple[float, float]] = []
    if curve.law is not None:
        for minutes in np.geomspace(curve.points[0].minutes, curve.most + more, SAMPLED):
            line.append((float(minutes), measure.scale * float(curve.law.at(float(minutes))[0])))
    unit = f"minutes of recordings{f'; {measure.unit}' if measure.unit else ''}"
    return points(measure.words, unit, rows, line)
