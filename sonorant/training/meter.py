"""What a training says of itself every few steps: losses, speed, where the time went, memory. Knows nothing of files or MLflow."""

from __future__ import annotations

import os
import sys
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel

from sonorant.data.loading import Cost
from sonorant.data.plan import MicroBatch
from sonorant.training import memory, per_rank, stall
from sonorant.training.communication import Communication
from sonorant.training.device_load import DeviceLoad, fragmentation_warning
from sonorant.training.step import TrainStep


class Meter:
    """Counts steps since it was last read and turns them into a row of metrics, the same on every rank; warns of what slows them."""

    def __init__(self, trained: TrainStep, workers: int) -> None:
        self.recipe, self.ranks, self.stopwatch = trained.recipe, trained.ranks, trained.stopwatch
        self.workers = workers
        self.cost = Cost()
        self.load = DeviceLoad(self.ranks.device)
        wrapped = [module for module in trained.wrapped.values() if isinstance(module, DistributedDataParallel)]
        self.communication = Communication(wrapped, self.recipe.config.log_every, self.ranks.device.type == "cuda")
        self.frames = self.padded = 0.0
        self._warned: set[tuple[int, str]] = set()

    def count(self, micro_batches: list[MicroBatch]) -> None:
        """A step over this global batch was taken."""
        self.communication.note()
        for units in map(self.recipe.units, micro_batches):
            self.frames += units["frames"]
            self.padded += units["padded_frames"]

    def restart(self) -> None:
        """Forget what was counted: the time since then was not spent on steps."""
        self.stopwatch.read()
        self.communication.read()
        self.cost.forget()
        self.frames = self.padded = 0.0

    def read(self, step: int, epoch: int, losses: dict[str, torch.Tensor], norms: dict[str, torch.Tensor]) -> dict[str, float]:
        """The row after `step` steps, from this rank's shares of the last step's losses; every rank must ask. Starts anew."""
        summed = self.ranks.sum(floats(losses))
        wall, shares = self._shares()
        load = self.load.read()
        figures = self.ranks.gather({"time": shares, "gpu": load, "warnings": self._warnings(wall, shares, load)})
        row = {f"train/{name}": value for name, value in summed.items()}
        row["train/loss"] = sum(
            term.weight * summed[name] for phase in self.recipe.phases[:1] for name, term in phase.terms.items()
        )
        row |= {f"train/gradient_norm_{name}": value for name, value in floats(norms).items()}
        row["train/learning_rate"] = self.recipe.config.learning_rate_at(step - 1)
        row["train/epoch"] = float(epoch)
        row["speed/audio_seconds_per_second"] = self.frames * self.recipe.seconds_per_frame / wall
        row |= self._of_ranks(figures)
        if self.padded:
            row["batch/padding"] = 1.0 - self.frames / self.padded
        if self.recipe.budget is not None:
            row["batch/budget"] = float(self.recipe.budget)
        row["memory/peak_gib"] = memory.peak(self.ranks.device) / 2**30
        self.frames = self.padded = 0.0
        self.cost.forget()
        self._warn([found["warnings"] for found in figures])
        return row

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
        times, loads = [found["time"] for found in figures], [found["gpu"] for found in figures]
        row = {f"time/{name}": value for name, value in per_rank.mean(times).items()}
        row |= {f"gpu/{name}": value for name, value in per_rank.mean(loads).items()}
        if self.ranks.world_size > 1:
            row |= per_rank.by_rank("time", times) | per_rank.by_rank("gpu", loads)
        return row

    def _warnings(self, wall: float, shares: dict[str, float], load: dict[str, float]) -> dict[str, str]:
        """What is worth a warning on this rank, by kind."""
        found = {}
        waited = shares.get("data", 0.0)
        if waited > stall.LIMIT:
            cores = max(1, len(os.sched_getaffinity(0)) // int(os.environ.get("LOCAL_WORLD_SIZE", "1")))
            kind, sentence = stall.cause(self.cost, wall, self.workers, cores)
            found[f"waiting for {kind}"] = f"{waited:.1%} of the steps' time went into waiting for data. {sentence}"
        fragmented = fragmentation_warning(load)
        if fragmented:
            found["fragmentation"] = fragmented
        if self.load.missing:
            found["nvml"] = f"GPU utilization and temperature are not known: {self.load.missing}"
        return found

    def _warn(self, warnings: list[dict[str, str]]) -> None:
        """Each kind once a rank, all by rank 0."""
        for rank, found in enumerate(warnings):
            for kind, sentence in found.items():
                if self.ranks.first and (rank, kind) not in self._warned:
                    self._warned.add((rank, kind))
                    print(f"warning: rank {rank}: {sentence}", file=sys.stderr, flush=True)


def floats(values: dict[str, torch.Tensor]) -> dict[str, float]:
    """Scalar tensors as numbers; a GPU has to finish its work for it."""
    return {name: float(value) for name, value in values.items()}
