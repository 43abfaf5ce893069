"""How a training stands, read from its run directory alone. Needs no torch, and disturbs nobody."""

import json
import os
import statistics
import time
from collections import deque
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from sonorant.errors import SonorantError
from sonorant.files import read_json
from sonorant.training.run_directory import RunDirectory

ROWS = 20
"""Newest rows of metrics whose median pace foretells the rest."""
QUIET = 20.0
"""Seconds without a sign of life after which a training that no process holds the lock of counts as killed: one that is
started again takes as long to join its ranks."""
COMPUTING = ("transfer", "forward", "backward", "optimizer")
ENDS = {"finished": 0, "failed": 1, "killed": 1, "stopped": 75}
"""States in which nothing more happens, and the exit status of who watched: 75 (EX_TEMPFAIL) may be resumed."""


@dataclass(frozen=True, kw_only=True)
class RankView:
    """One rank at the newest row; None: not logged, as of many ranks."""

    rank: int
    loss: float | None
    speed: float | None
    """Audio seconds for each second in which it did not wait for another."""
    shares: dict[str, float]
    """Of its time: computing, data, waiting (for others and links), rest."""
    gpu: float | None
    """Percent of the time in which its GPU was busy."""


@dataclass(frozen=True, kw_only=True)
class View:
    """A training at one moment."""

    path: Path
    model: str
    state: str
    """starting, running, or one of ENDS."""
    message: str
    """Why it failed, or finished before its last step; empty otherwise."""
    step: int
    steps: int
    pace: float | None
    """Seconds a step, without validations."""
    loss: float | None
    validation: float | None
    speed: float | None
    """Audio seconds per second of wall time, all ranks together."""
    ranks: list[RankView]
    findings: list[dict[str, Any]]
    """See `telemetry.judgement.Finding`."""
    saved: int
    """Step of the last checkpoint; 0: none yet."""
    saved_ago: float
    """Seconds since then, or since the start."""

    @property
    def seconds_left(self) -> float | None:
        """Until the last step, at this pace."""
        return None if self.pace is None else self.pace * (self.steps - self.step)


def find_run(path: Path) -> Path:
    """The run directory at or below `path`: the one at work, or else the newest. Raises SonorantError."""
    if not path.is_dir():
        raise SonorantError(f"{path}: no such folder; name a run directory, or a folder above run directories")
    found = [folder for folder in (path, *_below(path)) if (folder / "status.json").exists() or _locked(folder)]
    if not found:
        remedy = "name a run directory such as runs/train_acoustic/<fingerprint>"
        raise SonorantError(f"{path}: no training has begun here; {remedy}")
    return max(found, key=lambda folder: (RunDirectory(folder).at_work(), _newest(folder)))


def _below(path: Path) -> list[Path]:
    return sorted({file.parent for name in ("status.json", "lock") for file in path.rglob(name)})


def _locked(folder: Path) -> bool:
    return (folder / "lock").exists() and RunDirectory(folder).at_work()


def _newest(folder: Path) -> float:
    """When something last happened in a run directory, in Unix seconds."""
    files = [folder / name for name in ("status.json", "metrics.jsonl", "lock") if (folder / name).exists()]
    return max((file.stat().st_mtime for file in files), default=0.0)


class Watched:
    """Reads a run directory again and again; of the metrics only what is new."""

    def __init__(self, path: Path) -> None:
        self.run = RunDirectory(path)
        self._position = 0
        self._rows: deque[dict[str, Any]] = deque(maxlen=ROWS)
        self._validation: float | None = None

    def look(self) -> View:
        """How the training stands now. Raises SonorantError naming a damaged file."""
        self._read()
        status, job = self.run.status(), read_json(self.run.job) if self.run.job.exists() else {}
        newest = self._rows[-1] if self._rows else {"step": status["step"], "metrics": {}}
        figures = newest["metrics"]
        ended = status["state"] in ENDS
        step = status["step"] if ended and status["state"] != "failed" else max(newest["step"], status["step"])
        return View(
            path=self.run.path,
            model=job.get("recipe", self.run.path.parent.name),
            state=self._state(status),
            message=status["message"],
            step=step,
            steps=job.get("train", {}).get("steps", 0),
            pace=self._pace(),
            loss=figures.get("train/loss"),
            validation=self._validation,
            speed=figures.get("speed/audio_seconds_per_second"),
            ranks=ranks_of(figures),
            findings=self.run.health(),
            saved=status["step"],
            saved_ago=max(0.0, time.time() - status.get("time", time.time())),
        )

    def _state(self, status: dict[str, Any]) -> str:
        if self.run.at_work():
            begun = (self.run.path / "lock").stat().st_mtime  # an older end is one that is resumed from
            return "starting" if status.get("time", 0.0) < begun else str(status["state"])
        if status["state"] in ENDS:
            return str(status["state"])
        return "killed" if time.time() - _newest(self.run.path) > QUIET else "starting"

    def _read(self) -> None:
        """Take in the whole lines that are new; from the start again if the file was cut."""
        if not self.run.metrics.exists():
            return
        with self.run.metrics.open("rb") as file:
            if self._position > os.fstat(file.fileno()).st_size:
                self._position = 0
            file.seek(self._position)
            lines = file.read().split(b"\n")
        self._position += sum(len(line) + 1 for line in lines[:-1])
        for line in lines[:-1]:
            try:
                self._take(json.loads(line))
            except (ValueError, KeyError, TypeError):
                continue  # a damaged row: training names it when it is resumed

    def _take(self, row: dict[str, Any]) -> None:
        metrics = row["metrics"]
        self._validation = metrics.get("validation/loss", self._validation)
        if "train/loss" in metrics:
            self._rows.append({"step": int(row["step"]), "time": float(row["time"]), "metrics": metrics})

    def _pace(self) -> float | None:
        pairs = [(one, two) for one, two in pairwise(self._rows) if two["step"] > one["step"]]
        times = [(two["time"] - one["time"]) / (two["step"] - one["step"]) for one, two in pairs]
        return statistics.median(times) if times else None


def ranks_of(row: dict[str, float]) -> list[RankView]:
    """The ranks of a row of metrics, in order; of one process its only rank."""
    names = [name.split("/")[1] for name in row if name.startswith("time/rank")]
    names += [name.rpartition("/")[2] for name in row if name.startswith("train/loss_by_rank/")]
    numbers = sorted({int(name.removeprefix("rank")) for name in names})
    if not numbers:
        shares = _shares({name[5:]: value for name, value in row.items() if name.startswith("time/")})
        loss, speed = row.get("train/loss"), row.get("speed/audio_seconds_per_second")
        return [RankView(rank=0, loss=loss, speed=speed, shares=shares, gpu=row.get("gpu/utilization"))] if row else []
    return [_rank(row, number) for number in numbers]


def _rank(row: dict[str, float], number: int) -> RankView:
    own = f"time/rank{number}/"
    return RankView(
        rank=number,
        loss=row.get(f"train/loss_by_rank/rank{number}"),
        speed=row.get(f"speed/rank{number}/audio_seconds_per_working_second"),
        shares=_shares({name.removeprefix(own): value for name, value in row.items() if name.startswith(own)}),
        gpu=row.get(f"gpu/rank{number}/utilization"),
    )


def _shares(times: dict[str, float]) -> dict[str, float]:
    """A rank's phases, added up to what a person looks at."""
    if not times:
        return {}
    shares = {
        "computing": sum(times.get(phase, 0.0) for phase in COMPUTING),
        "data": times.get("data", 0.0),
        "waiting": times.get("communication", 0.0),
    }
    return {**shares, "rest": max(0.0, 1.0 - sum(shares.values()))}
