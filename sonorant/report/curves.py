"""Loss curves of trainings from their `curves.csv`. Knows nothing of how a curve is drawn."""

from __future__ import annotations

import csv
import math
from pathlib import Path

from sonorant.errors import SonorantError
from sonorant.report.charts import ChartLine, lines
from sonorant.report.markup import Html

CURVES = {"train/loss": "training", "validation/loss": "validation"}


def loss_chart(title: str, file: Path) -> Html:
    """Training and validation loss over steps. Raises SonorantError naming file and column if there is nothing to
    draw."""
    rows = _read(file)
    curves = [ChartLine(name=name, points=_points(file, rows, column)) for column, name in CURVES.items()]
    if not any(curve.points for curve in curves):
        raise SonorantError(f"{file}: holds no loss; run the stage that trains the model again")
    return lines(title, "step", [curve for curve in curves if curve.points])


def _read(file: Path) -> list[dict[str, str]]:
    try:
        with file.open(encoding="utf-8", newline="") as lines_of_file:
            rows = list(csv.DictReader(lines_of_file))
    except FileNotFoundError:
        raise SonorantError(f"{file}: no such file; run the stage that trains the model again") from None
    missing = [column for column in ("step", *CURVES) if not rows or column not in rows[0]]
    if missing:
        raise SonorantError(f"{file}: column '{missing[0]}' is missing; run the stage that trains the model again")
    return rows


def _points(file: Path, rows: list[dict[str, str]], column: str) -> tuple[tuple[float, float], ...]:
    points = []
    for number, row in enumerate(rows, 2):
        if not row[column]:
            continue  # not measured at this step
        try:
            point = float(row["step"]), float(row[column])
        except ValueError:
            raise SonorantError(
                f"{file}:{number}: '{column}' is not a number: {row[column]!r}; train the model again"
            ) from None
        if math.isfinite(point[1]):
            points.append(point)
    return tuple(points)
