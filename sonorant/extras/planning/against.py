"""A plan held against a training that was measured whole: do the hours that are foretold come true?"""

import statistics
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from sonorant.errors import SonorantError
from sonorant.extras.planning.probe import Speed
from sonorant.files import read_json
from sonorant.training.run_directory import RunDirectory, read_metrics
from sonorant.training.worker import Job

CORES = "speed/core_seconds_per_step"
PAUSE = 60.0
"""Seconds that two rows may be apart beyond ten times the usual; longer, the training was interrupted and resumed."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A training from its first row of metrics to its last one."""

    processes: int
    steps: int
    seconds: float
    """Without interruptions, whose steps count as long as the others."""
    seconds_per_step: float
    """The median, without validations and checkpoints."""
    core_seconds: float | None
    """Seconds of a step that the processes had a core, all together; None in runs of before it was logged."""
    interruptions: int
    validations: int
    checkpoints: int


def job_of_run(path: Path) -> Job:
    """The training of a run directory, with the micro-batch and the precision that it found. Raises SonorantError."""
    run = RunDirectory(path)
    if not run.job.exists():
        raise SonorantError(
            f"{run.job}: no such file; give the run directory of a training, runs/<stage>/<fingerprint>"
        )
    try:
        job = Job(**read_json(run.job))
    except TypeError as error:
        raise SonorantError(f"{run.job}: not the job of a training of this Sonorant ({error})") from None
    if not Path(job.features).exists():
        raise SonorantError(f"{job.features}: the features that {path} was trained on are gone; bring them back")
    budgets = [row["metrics"]["batch/budget"] for row in read_metrics(run.metrics) if "batch/budget" in row["metrics"]]
    found: dict[str, Any] = {"precision": run.precision() or job.train["precision"], "init_from": None}
    found |= {"freeze_steps": 0} if "freeze_steps" in job.train else {}
    if budgets:
        [key] = {"frames_per_micro_batch", "segments_per_micro_batch"} & job.train.keys()
        found[key] = int(budgets[-1])
    return replace(job, train=job.train | found, initial=None, profile=None, fingerprint="plan", provenance={})


def measured_in(path: Path, job: Job) -> Measured:
    """What the metrics of a run directory say. Raises SonorantError where they are too few to compare with."""
    rows = read_metrics(RunDirectory(path).metrics)
    trained = [row for row in rows if "train/loss" in row["metrics"]]
    if len(trained) < 3:
        raise SonorantError(f"{path}: has {len(trained)} rows of metrics, too few to hold a plan against; train on")
    span = [row for row in rows if row["time"] >= trained[0]["time"]]
    gaps = [(after["time"] - before["time"], after["step"] - before["step"]) for before, after in pairwise(span)]
    longest = 10 * statistics.median(seconds for seconds, _ in gaps) + PAUSE
    paces = [(after["time"] - before["time"]) / (after["step"] - before["step"]) for before, after in pairwise(trained)]
    pace = statistics.median(paces)
    cores = [row["metrics"][CORES] for row in trained if CORES in row["metrics"]]
    first, last, every = trained[0]["step"], span[-1]["step"], job.train["checkpoint_every"]
    names = {name for row in trained for name in row["metrics"] if name.startswith("time/rank")}
    return Measured(
        processes=len({name.split("/")[1] for name in names}) or 1,
        steps=last - first,
        seconds=sum(seconds if seconds <= longest else pace * steps for seconds, steps in gaps),
        seconds_per_step=pace,
        core_seconds=statistics.fmean(cores) if cores else None,
        interruptions=sum(seconds > longest for seconds, _ in gaps),
        validations=sum("validation/loss" in row["metrics"] for row in span[1:]),
        checkpoints=(last - 1) // every - first // every,  # the one at the end comes after the last row
    )


def compare(measured: Measured, speed: Speed) -> dict[str, Any]:
    """What the plan says of the time that was measured, beside it, as plain data.

    Raises SonorantError if the training had another number of processes than the plan was made with.
    """
    if measured.processes != speed.processes:
        ran = f"the training ran {measured.processes} processes, this plan {speed.processes}"
        raise SonorantError(f"{ran}: set PET_NPROC_PER_NODE={measured.processes}")
    parts = {
        "steps": measured.steps * speed.seconds_per_step,
        "validations": measured.validations * speed.validation,
        "checkpoints": measured.checkpoints * speed.checkpoint,
    }
    predicted, cores = sum(parts.values()), measured.core_seconds
    return {
        "steps": measured.steps,
        "measured_seconds": measured.seconds,
        "predicted_seconds": predicted,
        "predicted_over_measured": predicted / measured.seconds,
        "predicted_parts": parts,
        "seconds_a_step": {"measured": measured.seconds_per_step, "predicted": speed.seconds_per_step},
        "core_seconds_a_step": {"measured": cores or "not logged", "predicted": speed.core_seconds},
        "cores_predicted_over_measured": speed.core_seconds / cores if cores else "not logged",
        "interruptions": measured.interruptions,
    }
