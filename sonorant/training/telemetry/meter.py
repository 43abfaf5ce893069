"""Metrics of the last steps: losses, speed, time by phase, load, memory."""

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
"""Most ranks with separate metrics; of more, only the mean is logged."""
NANOSECONDS = 1e-9


def mean_over_ranks(figures: list[dict[str, float]]) -> dict[str, float]:
    """Mean of each figure over the ranks; missing ones count as zero."""
    names = dict.fromkeys(name for row in figures for name in row)
    return {name: sum(row.get(name, 0.0) for row in figures) / len(figures) for name in names}


def by_rank(group: str, figures: list[dict[str, float]]) -> dict[str, float]:
    """Figures of up to `DETAILED` ranks as `<group>/rank<rank>/<name>`."""
    shown = figures if len(figures) <= DETAILED else []
    return {f"{group}/rank{rank}/{name}": value for rank, row in enumerate(shown) for name, value in row.items()}


def own_loss(recipe: Recipe, shares: dict[str, float], step: list[MicroBatch], own: list[MicroBatch]) -> float | None:
    """Loss over a rank's own micro-batches, or None if it has none.

    Args:
        shares: the rank's share of each loss, divided by the global count.
        step: the global batch; own: the rank's part of it.
    """
    if not own:
        return None
    totals, counted = totals_of(recipe, step), totals_of(recipe, own)
    terms = [(name, term) for name, term in recipe.phases[0].terms.items() if name in shares]
    return sum(term.weight * shares[name] * totals[term.unit] / max(counted[term.unit], 1) for name, term in terms)


class Communication:
    """Seconds of averaging gradients since the last reading: hidden behind the backward pass, and exposed after it.

    Every step is measured on CPUs; on GPUs one in `every`, as measuring waits for the previous step.
    """

    def __init__(self, wrapped: Iterable[DistributedDataParallel], every: int, on_gpu: bool) -> None:
        self.wrapped, self.on_gpu = list(wrapped), on_gpu
        self.steps = 0
        self.exposed = self.hidden = 0.0
        for module in self.wrapped:
            module._set_ddp_runtime_logging_sample_rate(every if on_gpu else 1)

    def note(self) -> None:
        self.steps += 1
        if not self.on_gpu:
            self._add(1)

    def read(self) -> tuple[float, float]:
        """Exposed and hidden seconds; resets."""
        if self.on_gpu:
            self._add(self.steps)
        found = self.exposed, self.hidden
        self.steps, self.exposed, self.hidden = 0, 0.0, 0.0
        return found

    def _add(self, steps: int) -> None:
        # DDP's figures are of the previous step.
        for module in self.wrapped:
            told = module._get_ddp_logging_data()
            total = told.get("backward_comm_time", 0) * NANOSECONDS
            hidden = min(told.get("backward_compute_comm_overlap_time", 0) * NANOSECONDS, total)
            self.exposed += steps * (total - hidden)
            self.hidden += steps * hidden


class Meter:
    """Collects a row of metrics, equal on all ranks, and warns of slow ranks."""

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

    def count(self, micro_batches: list[MicroBatch]) -> None:
        """Count a step over this global batch."""
        self.communication.note()
        self._step = micro_batches
        self.steps += 1
        for units in map(self.recipe.units, micro_batches):
            self.frames += units["frames"]
            self.padded += units["padded_frames"]
        self.own_frames += sum(self.recipe.units(micro_batch)["frames"] for micro_batch in self._own())

    def restart(self) -> None:
        """Reset: the time since was not spent on steps."""
        self.stopwatch.read()
        self.communication.read()
        self._forget()

    def _forget(self) -> None:
        self.cost.forget()
        self.frames = self.padded = self.own_frames = 0.0
        self.steps, self._worked = 0, time.process_time()

    def _own(self) -> list[MicroBatch]:
        return [batch for batch, weight in shard(self._step, self.ranks.rank, self.ranks.world_size) if weight]

    def read(self, step: int, epoch: int, losses: Tensors, norms: Tensors) -> dict[str, float]:
        """Row of metrics after `step` steps, from this rank's share of the losses; a collective call that resets."""
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
        """Wall seconds since the last reading, and their shares by phase on this rank."""
        wall, shares = self.stopwatch.read()
        exposed, hidden = (seconds / wall for seconds in self.communication.read())
        exposed = min(exposed, shares.get("backward", 0.0))
        if "backward" in shares:  # waiting for other ranks
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
    """Scalar tensors as numbers; synchronises a GPU."""
    return {name: float(value) for name, value in values.items()}
