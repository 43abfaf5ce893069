"""`sonorant watch`: print the state of a training run, from its run directory alone and without torch."""

import statistics
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

from sonorant.errors import SonorantError
from sonorant.files import read_json
from sonorant.training.run_directory import RunDirectory, read_metrics

ROWS = 20
"""Number of newest metrics rows whose median pace predicts the remaining time."""
QUIET = 20.0
"""Seconds without a change after which a training run without a lock counts as killed; joining takes as long."""
ENDS = {"finished": 0, "failed": 1, "killed": 1, "stopped": 75}
"""Final states and their exit status; after 75 (EX_TEMPFAIL), training can be resumed."""


def watch(path: Path, interval: float | None = None, once: bool = False) -> int:
    """Print a line every `interval` seconds until the training run ends, or only one if `once`; return the exit
    status."""
    run = RunDirectory(find_run(path))
    while True:
        state, line = look(run)
        print(line, flush=True)
        if once or state in ENDS:
            return ENDS.get(state, 0)
        time.sleep(interval or (2.0 if sys.stdout.isatty() else 10.0))


def find_run(path: Path) -> Path:
    """Return the run directory at or below `path`: one with a running trainer, otherwise the newest. Raises
    SonorantError if there is none."""
    if not path.is_dir():
        raise SonorantError(f"{path}: no such folder; name a run directory, or a folder that contains run directories")
    found = {file.parent for name in ("status.json", "lock") for file in path.rglob(name)}
    if not found:
        remedy = "name a folder such as runs/train_acoustic, or start one with: sonorant train"
        raise SonorantError(f"{path}: no training has started here; {remedy}")
    return max(found, key=lambda folder: (RunDirectory(folder).at_work(), newest(folder)))


def newest(folder: Path) -> float:
    files = [folder / name for name in ("status.json", "metrics.jsonl", "lock")]
    return max(file.stat().st_mtime for file in files if file.exists())


def look(run: RunDirectory) -> tuple[str, str]:
    """Return a training run's state (`starting`, `running` or one of ENDS), and a line about it."""
    status, job = run.status(), read_json(run.job) if run.job.exists() else {}
    state, steps = str(status["state"]), job.get("train", {}).get("steps", 0)
    if run.at_work():
        begun = (run.path / "lock").stat().st_mtime
        if status.get("time", 0.0) < begun:  # written before this resume
            state = "starting"
    elif state not in ENDS:
        state = "killed" if time.time() - newest(run.path) > QUIET else "starting"
    rows = [row for row in read_metrics(run.metrics) if "train/loss" in row["metrics"]][-ROWS:]
    step = max([status["step"], *(row["step"] for row in rows[-1:])])
    parts = [f"{job.get('recipe', run.path.parent.name)} {step}/{steps} {state}", *figures(rows, steps - step)]
    parts.append(f"checkpoint at step {status['step']}" if status["step"] else "no checkpoint yet")
    return state, ", ".join(parts) + (f": {status['message']}" if status["message"] else "")


def figures(rows: list[dict[str, Any]], steps_left: int) -> Iterator[str]:
    if not rows:
        return
    metrics = rows[-1]["metrics"]
    yield f"loss {metrics['train/loss']:.4f}"
    pairs = [(one, two) for one, two in pairwise(rows) if two["step"] > one["step"]]
    if pairs:
        pace = statistics.median((two["time"] - one["time"]) / (two["step"] - one["step"]) for one, two in pairs)
        yield f"{1 / max(pace, 1e-9):.2f} steps/s"
        yield f"{timedelta(seconds=round(pace * steps_left))} left"
    yield from (f"{name.removeprefix('health/')}: {count:.0f} ranks" for name, count in metrics.items()
                if name.startswith("health/") and count)  # fmt: skip
