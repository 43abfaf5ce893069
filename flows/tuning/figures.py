"""Metrics of trials, from training or reports/metrics.json.

`train_vocoder/validation/loss`: last value that the vocoder's training logged. `train_vocoder/core_seconds`: core
seconds of its steps. `features/minutes`: minutes of training recordings. Any other name is a key in metrics.json, such
as `naturalness.fp32.dnsmos.ovrl`, with the interval `<key>_ci95`.
"""

import csv
import math
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from flows.graph import Pipeline
from flows.workspace import leaves
from sonorant.errors import SonorantError
from sonorant.features.index import Index
from sonorant.files import did_you_mean, read_json
from sonorant.plugins import all_kinds
from sonorant.training.run_directory import read_metrics
from tasks.training import stage_of

METRICS = Path("reports/metrics.json")
CORE_SECONDS = "core_seconds"
PER_STEP = "speed/core_seconds_per_step"
MINUTES = "features/minutes"
FEATURES = Path("data/features")

Point = tuple[int, float]
"""Step and value."""


class NoFigure(SonorantError):
    """The trial did not measure the metric, or its value is not finite."""


@dataclass(frozen=True)
class Figure:
    name: str

    @property
    def kind(self) -> str | None:
        """Kind of model whose training logs the metric; None for other metrics."""
        section, slash, _ = self.name.partition("/")
        return section.removeprefix("train_") if slash and section.startswith("train_") else None

    @property
    def curve(self) -> str:
        """Name of the metric in `metrics.jsonl`."""
        return self.name.partition("/")[2]

    def stage(self, graph: Pipeline) -> str:
        """Return the stage that measures the metric. Raises SonorantError if none does."""
        if self.kind is not None and self.kind not in all_kinds():
            near = did_you_mean(f"train_{self.kind}", [f"train_{kind}" for kind in all_kinds()])
            raise SonorantError(f"figure '{self.name}': no such training{near}")
        stage = stage_of(self.kind) if self.kind else graph.writer(FEATURES if self.name == MINUTES else METRICS)
        if stage not in graph.stages:
            raise SonorantError(f"figure '{self.name}': no stage of dvc.yaml measures it; choose another figure")
        return str(stage)

    def check(self, root: Path) -> None:
        """Raise SonorantError if metrics.json exists in `root` but lacks the metric."""
        if self.kind is None and self.name != MINUTES and (root / METRICS).exists():
            found_in(read_json(root / METRICS), self.name)

    def measure(self, where: Path) -> tuple[float, list[float] | None]:
        """Return the metric's value and 95 % interval (or None) in the project `where`.

        Raises SonorantError for an unknown metric, NoFigure if this trial did not measure it.
        """
        if self.kind:
            return self._of_training(where), None
        if self.name == MINUTES:
            return _minutes_in(where / FEATURES), None
        value, interval = found_in(read_json(where / METRICS), self.name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise NoFigure(f"{self.name} is not a number: {str(value)[:100]}")
        return float(value), interval

    def _of_training(self, where: Path) -> float:
        model = where / "models" / stage_of(str(self.kind)).removeprefix("train_")
        run = where / "runs" / f"train_{self.kind}" / read_json(model / "model.json")["provenance"]["fingerprint"]
        if self.curve == CORE_SECONDS:
            rows = read_metrics(run / "metrics.jsonl")
            measured = [row["metrics"][PER_STEP] for row in rows if PER_STEP in row["metrics"]]
            if not measured:
                raise NoFigure(f"{self.name}: {run} is missing; a trial that trains again measures it")
            return fmean(measured) * float(rows[-1]["step"])
        points = points_of(model / "curves.csv", self.curve)
        if not points:
            raise NoFigure(f"{self.name}: not a column of {model / 'curves.csv'}; name one of its columns")
        _, value = points[-1]
        if not math.isfinite(value):
            raise NoFigure(f"{self.name} is {value}")
        return value


def _minutes_in(features: Path) -> float:
    header = read_json(features / "header.json")
    audio, index = header["audio"], Index.open(features, header["index"])
    frames = index.frames[index.split == header["splits"].index("train")].sum()
    return float(frames) * audio["hop"] / audio["sample_rate"] / 60


def found_in(metrics: dict[str, Any], name: str) -> tuple[Any, list[float] | None]:
    """Return the value and interval of the key `name`, "a.b.c"; parts may contain dots. Raises SonorantError for an
    unknown key."""
    values = dict(leaves(metrics))
    if name in values:
        interval = values.get(f"{name}_ci95")
        return values[name], interval if isinstance(interval, list) else None
    for part in sorted(values, key=len, reverse=True):
        if name.startswith(f"{part}.") and isinstance(values[part], str):
            raise NoFigure(f"{part}: {values[part]}")  # the value is the reason why it is missing
    figures = [key for key, value in values.items() if isinstance(value, int | float)]
    near = did_you_mean(name, figures) if figures else ""
    hint = near if near.startswith("; did") else f"; such as {', '.join(figures[:3])}"
    raise SonorantError(f"figure '{name}': {METRICS} has no such figure{hint}")


def points_of(curves: Path, name: str) -> list[Point]:
    with curves.open(encoding="utf-8", newline="") as file:
        return [(int(row["step"]), float(row[name])) for row in csv.DictReader(file) if row.get(name)]


def live_points(figure: Figure, runs: Path, execution: str) -> list[Point]:
    """Read the points that the training of a pipeline execution has logged in `runs`."""
    for note in (runs / f"train_{figure.kind}").glob("*/tracking.json"):  # written before training starts
        if read_json(note).get("spec", {}).get("execution") == execution:
            rows = read_metrics(note.parent / "metrics.jsonl")
            return [(row["step"], row["metrics"][figure.curve]) for row in rows if figure.curve in row["metrics"]]
    return []
