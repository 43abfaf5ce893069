"""Figures that trials are judged by: of a training, or of reports/metrics.json.

`train_vocoder/validation/loss` is the last point of a curve that the training of the vocoder logged, and
`train_vocoder/core_seconds` the core seconds of its steps. `features/minutes` is how much is learned from. Any other
name is a key of the metrics with its sections, such as `naturalness.fp32.dnsmos.ovrl`; its interval stands beside it
there as `<key>_ci95`.
"""

import csv
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from flows.graph import Pipeline
from sonorant.errors import SonorantError
from sonorant.features.index import Index
from sonorant.files import did_you_mean, read_json
from sonorant.plugins import all_kinds
from sonorant.registry.tracking.points import Point, Tail
from sonorant.training.run_directory import read_metrics
from tasks.training import stage_of

METRICS = Path("reports/metrics.json")
CORE_SECONDS = "core_seconds"
"""Figure of a training: how long its steps took, times the cores at work."""
PER_STEP = "speed/core_seconds_per_step"
MINUTES = "features/minutes"
"""Minutes of sound in the training split of the features."""
FEATURES = Path("data/features")


class NoFigure(SonorantError):
    """This trial has no such figure, others may: it was not measured, or is not finite."""


@dataclass(frozen=True)
class Figure:
    """A figure by name."""

    name: str

    @property
    def kind(self) -> str | None:
        """The kind of model whose training it is of; None for one of the metrics."""
        section, slash, _ = self.name.partition("/")
        return section.removeprefix("train_") if slash and section.startswith("train_") else None

    @property
    def curve(self) -> str:
        """The name in `metrics.jsonl` of a training's figure."""
        return self.name.partition("/")[2]

    def stage(self, graph: Pipeline) -> str:
        """The stage that measures it. Raises SonorantError if none does."""
        if self.kind is not None and self.kind not in all_kinds():
            near = did_you_mean(f"train_{self.kind}", [f"train_{kind}" for kind in all_kinds()])
            raise SonorantError(f"figure '{self.name}': there is no such training{near}")
        stage = stage_of(self.kind) if self.kind else graph.writer(FEATURES if self.name == MINUTES else METRICS)
        if stage not in graph.stages:
            raise SonorantError(f"figure '{self.name}': no stage of dvc.yaml measures it")
        return str(stage)

    def check(self, root: Path) -> None:
        """Refuse a name that the metrics of a finished run in `root` do not have. Raises SonorantError."""
        if self.kind is None and self.name != MINUTES and (root / METRICS).exists():
            found_in(read_json(root / METRICS), self.name)

    def measure(self, where: Path) -> tuple[float, list[float] | None]:
        """Value and 95 % interval, if it has one, in the project `where` after the figure's stage.

        Raises SonorantError for a name that does not exist, NoFigure if this trial lacks it.
        """
        if self.kind:
            return self._of_training(where), None
        if self.name == MINUTES:
            return _minutes_in(where / FEATURES), None
        value, interval = found_in(read_json(where / METRICS), self.name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise NoFigure(f"{self.name} is no number here: {str(value)[:100]}")
        return float(value), interval

    def _of_training(self, where: Path) -> float:
        model = where / "models" / stage_of(str(self.kind)).removeprefix("train_")
        run = where / "runs" / f"train_{self.kind}" / read_json(model / "model.json")["provenance"]["fingerprint"]
        if self.curve == CORE_SECONDS:
            rows = read_metrics(run / "metrics.jsonl")
            measured = [row["metrics"][PER_STEP] for row in rows if PER_STEP in row["metrics"]]
            if not measured:
                raise NoFigure(f"{self.name}: {run} is gone, so nobody knows")
            return fmean(measured) * float(rows[-1]["step"])
        points = points_of(model / "curves.csv", self.curve)
        if not points:
            raise NoFigure(f"{self.name}: the training logged no such point")
        value = points[-1].value
        if not math.isfinite(value):
            raise NoFigure(f"{self.name} is {value}")
        return value


def _minutes_in(features: Path) -> float:
    header = read_json(features / "header.json")
    audio, index = header["audio"], Index.open(features, header["index"])
    frames = index.frames[index.split == header["splits"].index("train")].sum()
    return float(frames) * audio["hop"] / audio["sample_rate"] / 60


def found_in(metrics: dict[str, Any], name: str) -> tuple[Any, list[float] | None]:
    """Value and interval of the key `name` ("a.b.c"; keys may hold dots themselves). Raises SonorantError."""
    values = dict(_leaves(metrics))
    if name in values:
        interval = values.get(f"{name}_ci95")
        return values[name], interval if isinstance(interval, list) else None
    for part in sorted(values, key=len, reverse=True):
        if name.startswith(f"{part}.") and isinstance(values[part], str):
            raise NoFigure(f"{part}: {values[part]}")  # why it was not measured stands in its place
    figures = [key for key, value in values.items() if isinstance(value, int | float)]
    near = did_you_mean(name, figures) if figures else ""
    hint = near if near.startswith("; did") else f"; such as {', '.join(figures[:3])}"
    raise SonorantError(f"figure '{name}': {METRICS} has no such figure{hint}")


def _leaves(values: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        yield from _leaves(value, f"{prefix}{key}.") if isinstance(value, dict) else [(f"{prefix}{key}", value)]


def points_of(curves: Path, name: str) -> list[Point]:
    """The points of a curve in a trained model's `curves.csv`; their time is 0, which nobody noted there."""
    with curves.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row.get(name)]
    return [Point(key=name, value=float(row[name]), step=int(row["step"]), time=0.0) for row in rows]


@dataclass
class LiveCurve:
    """The points of a figure of a training while it runs for the pipeline execution `execution`."""

    figure: Figure
    runs: Path
    """Folder of run directories."""
    execution: str
    _tail: Tail | None = field(default=None, init=False)

    def new_points(self) -> list[Point]:
        """Those since the last call."""
        if self._tail is None and (run := self._run_directory()):
            self._tail = Tail(run / "metrics.jsonl")
        return [point for point in self._tail.read() if point.key == self.figure.curve] if self._tail else []

    def _run_directory(self) -> Path | None:
        """That of the execution, which the training notes for MLflow before it begins."""
        for note in (self.runs / f"train_{self.figure.kind}").glob("*/tracking.json"):
            if read_json(note).get("spec", {}).get("execution") == self.execution:
                return note.parent
        return None
