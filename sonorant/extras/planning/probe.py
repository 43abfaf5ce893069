"""Short training runs on this machine that measure memory and work (in one process) and speed (under torchrun)."""

import contextlib
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import torch
import torch.distributed as dist

from sonorant.extras.planning.hardware import GpuModel
from sonorant.extras.planning.work import Work, bytes_by_component, parameter_counts, work_of
from sonorant.training import checkpoint, memory
from sonorant.training.config import MachineConfig
from sonorant.training.distributed.launch import environment, launch
from sonorant.training.distributed.ranks import Ranks
from sonorant.training.precision import find_precision
from sonorant.training.run_directory import RunDirectory, read_metrics
from sonorant.training.step import TrainStep
from sonorant.training.sub_batches import release
from sonorant.training.telemetry.stopwatch import Stopwatch
from sonorant.training.worker import Job, recipe_of

WARM_UP = 3
"""Number of steps before timing starts."""


@dataclass(frozen=True, kw_only=True)
class Needs:
    """Requirements of a training run, independent of speed."""

    parameters: dict[str, int]
    bytes: dict[str, int]
    """Memory in bytes of each component in `bytes_by_component`."""
    device: torch.device
    allowed: int
    """Maximum bytes of the device's memory for training."""
    budget: int
    """Size of a micro-batch, in the recipe's unit."""
    largest: int
    """Size of the largest micro-batch that ran without exceeding memory."""
    bounded: bool
    """Whether the size of an epoch, not memory, limits `largest`."""
    work: Work

    frames_a_step: float
    """Mean number of mel frames per step."""
    seconds_per_frame: float


@dataclass(frozen=True, kw_only=True)
class Speed:
    processes: int
    seconds_per_step: float
    shares: dict[str, float]
    """Fraction of a step's time in each phase, as in `metrics.jsonl`."""
    validation: float
    """Seconds of a validation, including samples and saving the best checkpoint."""
    checkpoint: float
    """Seconds to write a checkpoint, including the check before it."""
    start: float
    """Seconds from the start to the first step."""


def needs_of(job: Job, gpu: GpuModel | None = None) -> Needs:
    """Run the heaviest micro-batches in increasing sizes, and count the work of a step.

    With `gpu` nothing is measured: one step is counted on the CPU, with the smallest micro-batch if its size is auto.
    """
    device = torch.device("cuda", 0) if gpu is None and torch.cuda.is_available() else torch.device("cpu")
    if gpu:
        half = job.train["precision"] if job.train["precision"] == "fp32" else "bf16"
        job = replace(job, train=job.train | {"precision": half, "compile": False})
    with _alone():
        needs = _needs(job, device, gpu)
    release(device)  # frees memory for the speed run
    return needs


def _needs(job: Job, device: torch.device, gpu: GpuModel | None) -> Needs:
    share = MachineConfig(**job.machine).memory_share
    recipe = recipe_of(job)
    trained = TrainStep(recipe, Ranks(0, 1, 0, device), Stopwatch())
    if trained.precision is None:
        find_precision(trained)
    wanted = recipe.budget
    smallest, most = recipe.budget_range(memory.STEPS_AN_EPOCH)
    allowed = int(share * gpu.memory) if gpu else memory.allowance(device, share)
    largest = most if gpu else memory.find_budget(trained, share)
    recipe.budget = wanted or (smallest if gpu else largest)
    steps = recipe.plan.steps(0)
    data, count = recipe.dataset(steps[0]), len(steps[0])
    return Needs(
        parameters=parameter_counts(recipe),
        bytes=bytes_by_component(trained),
        device=device,
        allowed=allowed,
        budget=recipe.budget,
        largest=largest,
        bounded=largest >= most,
        work=work_of(lambda: trained.take(0, steps[0], (data[index] for index in range(count)))),
        frames_a_step=sum(recipe.units(batch)["frames"] for step in steps for batch in step) / len(steps),
        seconds_per_frame=recipe.seconds_per_frame,
    )


def speed_of(job: Job, needs: Needs, steps: int) -> Speed:
    """Train for `steps` steps after warm-up, under torchrun and in a temporary folder."""
    total = steps + WARM_UP
    train = job.train | {"steps": total, "log_every": 1, "validate_every": total, "checkpoint_every": total}
    with tempfile.TemporaryDirectory() as folder, _output_to_stderr():
        run, begun = RunDirectory(Path(folder) / "run"), time.time()
        launch(replace(job, train=train, run=str(run.path), out=str(Path(folder) / "model")))
        rows = read_metrics(run.metrics)
        saved = checkpoint.path_of(run.checkpoints, total).stat().st_mtime
    taken = [row for row in rows if "train/loss" in row["metrics"]]
    [validated] = [row["time"] for row in rows if "validation/loss" in row["metrics"]]
    measured = [row["metrics"] for row in taken[WARM_UP:]]
    names = [name for name in measured[0] if name.startswith("time/") and name.count("/") == 1]
    # Steps differ in length and few are timed: scale by audio per second.
    pace = statistics.median(row["speed/audio_seconds_per_second"] for row in measured)
    seconds = needs.frames_a_step * needs.seconds_per_frame / pace
    return Speed(
        processes=int(environment(os.environ, train["micro_batches_per_step"])["PET_NPROC_PER_NODE"]),
        seconds_per_step=seconds,
        shares={name[5:]: statistics.fmean(row.get(name, 0.0) for row in measured) for name in names},
        validation=validated - taken[-1]["time"],
        checkpoint=max(0.0, saved - validated),
        start=max(0.0, taken[0]["time"] - begun - seconds),
    )


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    with tempfile.TemporaryDirectory() as folder:
        dist.init_process_group("gloo", init_method=f"file://{folder}/group", rank=0, world_size=1)
        try:
            yield
        finally:
            dist.destroy_process_group()


@contextlib.contextmanager
def _output_to_stderr() -> Iterator[None]:

    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
