"""Metrics of the last steps: losses, speed, shares of the time, load of the device, memory."""

import os
import sys
import time
from collections.abc import Iterable
from typing import Any

from torch.nn.parallel import DistributedDataParallel

from sonorant.features.plan import MicroBatch, shard
from sonorant.processes import usable_cores
from sonorant.training import memory
from sonorant.training.recipe import Recipe, Tensors
from sonorant.training.step import TrainStep, totals_of
from sonorant.training.telemetry import loading
from sonorant.training.telemetry.device import DeviceLoad
from sonorant.training.telemetry.judgement import Judgement, Reading, judge
from sonorant.training.telemetry.loading import Cost

DETAILED = 8
"""Ranks up to which each has metrics of its own; of more, only the mean is logged."""
NANOSECONDS = 1e-9


def mean_over_ranks(figures: list[dict[str, float]]) -> dict[str, float]:
    """The mean of each figure over the ranks; a rank without it counts as zero."""
    names = dict.fromkeys(name for row in figures for name in row)
    return {name: sum(row.get(name, 0.0) for row in figures) / len(figures) for name in names}


def by_rank(group: str, figures: list[dict[str, float]]) -> dict[str, float]:
    """The figures of up to `DETAILED` ranks as `<group>/rank<rank>/<name>`."""
    shown = figures if len(figures) <= DETAILED else []
    return {f"{group}/rank{rank}/{name}": value for rank, row in enumerate(shown) for name, value in row.items()}


def own_loss(recipe: Recipe, shares: dict[str, float], step: list[MicroBatch], own: list[MicroBatch]) -> float | None:
    """The loss over a rank's own micro-batches, or None if it has none.

    Args:
        shares: what the rank adds to each loss of the step, which is divided by the step's count of its unit.
        step: the global batch; `own`: those of it that the rank computed.
    """
    if not own:
        return None
    totals, counted = totals_of(recipe, step), totals_of(recipe, own)
    terms = [(name, term) for name, term in recipe.phases[0].terms.items() if name in shares]
    return sum(term.weight * shares[name] * totals[term.unit] / max(counted[term.unit], 1) for name, term in terms)


class Communication:
    """Seconds that averaging gradients took since it was last read.

    DistributedDataParallel averages a bucket of gradients as soon as it is full, while the backward pass computes the
    next one; only what is left after the last gradient costs time. On CPUs every step is measured. On GPUs measuring
    makes the host wait for the step before, so one step in `every` stands for all of them.
    """

    def __init__(self, wrapped: Iterable[DistributedDataParallel], every: int, on_gpu: bool) -> None:
        self.wrapped, self.on_gpu = list(wrapped), on_gpu
        self.steps = 0
        self.exposed = self.hidden = 0.0
        for module in self.wrapped:
            module._set_ddp_runtime_logging_sample_rate(every if on_gpu else 1)

    def note(self) -> None:
        """A step was taken."""
        self.steps += 1
        if not self.on_gpu:
            self._add(1)

    def read(self) -> tuple[float, float]:
        """Seconds the backward passes waited for averaging, and seconds of averaging they hid; starts anew."""
        if self.on_gpu:
            self._add(self.steps)
        found = self.exposed, self.hidden
        self.steps, self.exposed, self.hidden = 0, 0.0, 0.0
        return found

    def _add(self, steps: int) -> None:
        # Each module knows the step before: a step's end is only seen when the next one starts.
        for module in self.wrapped:
            told = module._get_ddp_logging_data()
            total = told.get("backward_comm_time", 0) * NANOSECONDS
            hidden = min(told.get("backward_compute_comm_overlap_time", 0) * NANOSECONDS, total)
            self.exposed += steps * (total - hidden)
            self.hidden += steps * hidden


class Meter:
    """Counts steps and turns them into a row of metrics, equal on all ranks; warns of slow ranks."""

    def __init__(self, trained: TrainStep, workers: int) -> None:
        self.recipe, self.ranks, self.stopwatch = trained.recipe, trained.ranks, trained.stopwatch
        self.workers = workers
        self.cost = Cost()
        self.load = DeviceLoad(self.ranks.device)
        wrapped = [module for module in trained.wrapped.values() if isinstance(module, DistributedDataParallel)]
        self.communication = Communication(wrapped, self.recipe.config.log_every, self.ranks.device.type == "cuda")
        self.judgement = Judgement()
        self.frames = self.padded = self.own_frames = 0.0
        self.steps, self._worked = 0, time.process_time()
        self._step: list[MicroBatch] = []
        """The global batch of the last step."""

    def count(self, micro_batches: list[MicroBatch]) -> None:
        """A step over this global batch was taken."""
        self.communication.note()
        self._step = micro_batches
        self.steps += 1
        for units in map(self.recipe.units, micro_batches):
            self.frames += units["frames"]
            self.padded += units["padded_frames"]
        self.own_frames += sum(self.recipe.units(micro_batch)["frames"] for micro_batch in self._own())

    def restart(self) -> None:
        """Forget what was counted: the time since was not spent on steps."""
        self.stopwatch.read()
        self.communication.read()
        self._forget()

    def _forget(self) -> None:
        self.cost.forget()
        self.frames = self.padded = self.own_frames = 0.0
        self.steps, self._worked = 0, time.process_time()

    def _own(self) -> list[MicroBatch]:
        """This rank's micro-batches of the last step."""
        return [batch for batch, weight in shard(self._step, self.ranks.rank, self.ranks.world_size) if weight]

    def read(self, step: int, epoch: int, losses: Tensors, norms: Tensors) -> dict[str, float]:
        """The row after `step` steps, from this rank's share of the losses; every rank must call it. Starts anew."""
        added = floats(losses)
        summed = self.ranks.sum(added)
        wall, shares = self._shares()
        load = self.load.read()
        loss = own_loss(self.recipe, added, self._step, self._own())
        reading = self._reading(wall, shares, load)
        cores = time.process_time() - self._worked
        figures = self.ranks.gather({"gpu": load, "loss": loss, "cores": cores, "reading": reading})
        row = {f"train/{name}": value for name, value in summed.items()}
        terms = self.recipe.phases[0].terms.items()
        row["train/loss"] = sum(term.weight * summed[name] for name, term in terms if name in summed)
        row |= {f"train/gradient_norm_{name}": value for name, value in floats(norms).items()}
        row["train/learning_rate"] = self.recipe.config.learning_rate_at(step - 1, self.recipe.budget)
        row["train/epoch"] = float(epoch)
        row["speed/audio_seconds_per_second"] = self.frames * self.recipe.seconds_per_frame / wall
        row["speed/core_seconds_per_step"] = sum(found["cores"] for found in figures) / max(self.steps, 1)
        row |= self._of_ranks(figures)
        if self.padded:
            row["batch/padding"] = 1.0 - self.frames / self.padded
        if self.recipe.budget is not None:
            row["batch/budget"] = float(self.recipe.budget)
        row["batch/learning_rate_factor"] = self.recipe.config.learning_rate_factor(self.recipe.budget)
        row["memory/peak_gib"] = memory.peak(self.ranks.device) / 2**30
        for line in self.judgement.take(judge([found["reading"] for found in figures])):
            if self.ranks.first:
                print(line, file=sys.stderr, flush=True)
        self._forget()
        return row | self.judgement.row()

    def _shares(self) -> tuple[float, dict[str, float]]:
        """Wall seconds since the last reading, and where they went on this rank."""
        wall, shares = self.stopwatch.read()
        exposed, hidden = (seconds / wall for seconds in self.communication.read())
        exposed = min(exposed, shares.get("backward", 0.0))
        if "backward" in shares:  # the averaging it waited for is not its own work
            shares["backward"] -= exposed
        shares["communication"] = shares.get("communication", 0.0) + exposed
        shares["rest"] = max(0.0, 1.0 - sum(shares.values()))
        return wall, {**shares, "communication_hidden": hidden}

    def _of_ranks(self, figures: list[dict[str, Any]]) -> dict[str, float]:
        times, loads = [found["reading"].times for found in figures], [found["gpu"] for found in figures]
        row = {f"time/{name}": value for name, value in mean_over_ranks(times).items()}
        row |= {f"gpu/{name}": value for name, value in mean_over_ranks(loads).items()}
        if self.ranks.world_size > 1:
            row |= by_rank("time", times) | by_rank("gpu", loads)
            # Not below `train/loss/`: in MLflow a metric cannot also be a folder.
            own = {f"train/loss_by_rank/rank{rank}": found["loss"] for rank, found in enumerate(figures)}
            row |= {name: loss for name, loss in own.items() if loss is not None}
        return row

    def _reading(self, wall: float, shares: dict[str, float], load: dict[str, float]) -> Reading:
        """This rank's figures and findings for `judge`."""
        found, waited = {}, shares.get("data", 0.0)
        if waited > loading.LIMIT:
            cores = max(1, usable_cores() // int(os.environ.get("LOCAL_WORLD_SIZE", "1")))
            kind, sentence = loading.cause_of_waiting(self.cost, wall, self.workers, cores)
            found[f"waiting for {kind}"] = f"{waited:.1%} of the steps' time went into waiting for data. {sentence}"
        own = found | self.load.findings(load)
        return Reading(host=self.ranks.host, times=shares, frames=self.own_frames, own=own)


def floats(values: Tensors) -> dict[str, float]:
    """Scalar tensors as numbers; makes a GPU finish its work."""
    return {name: float(value) for name, value in values.items()}
