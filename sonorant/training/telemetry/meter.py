"""What a training says of itself every few steps: losses, speed, where the time went, each device's load, memory.

Knows nothing of files or MLflow.
"""

import os
import sys
from collections.abc import Iterable
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel

from sonorant.data.plan import MicroBatch
from sonorant.gpu import NoNvml, Nvml
from sonorant.processes import usable_cores
from sonorant.training import memory
from sonorant.training.recipe import Tensors
from sonorant.training.step import TrainStep
from sonorant.training.telemetry import loading
from sonorant.training.telemetry.loading import Cost

DETAILED = 8
"""Ranks up to which each has metrics of its own; of more, only the largest value is kept, and whose it is."""
FRAGMENTED = 0.3
"""Share of the reserved memory that nothing ever used, above which it is worth a warning."""
NANOSECONDS = 1e-9


def mean_over_ranks(figures: list[dict[str, float]]) -> dict[str, float]:
    """The mean of each figure over the ranks; a rank without it counts as zero."""
    return {name: sum(row.get(name, 0.0) for row in figures) / len(figures) for name in _names(figures)}


def by_rank(group: str, figures: list[dict[str, float]]) -> dict[str, float]:
    """All ranks' figures as `<group>/rank<rank>/<name>`, or `<group>/largest/<name>` and `<group>/largest_rank/...`."""
    if len(figures) <= DETAILED:
        return {f"{group}/rank{rank}/{name}": value for rank, row in enumerate(figures) for name, value in row.items()}
    row: dict[str, float] = {}
    for name in _names(figures):
        value, rank = max((found[name], -rank) for rank, found in enumerate(figures) if name in found)
        row |= {f"{group}/largest/{name}": value, f"{group}/largest_rank/{name}": float(-rank)}
    return row


def _names(figures: list[dict[str, float]]) -> list[str]:
    return list(dict.fromkeys(name for row in figures for name in row))


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


class DeviceLoad:
    """Reads a GPU at this moment; silent on CPUs."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.missing: str | None = None
        """Why NVML could not be asked."""
        self._nvml: Nvml | None = None
        if device.type == "cuda":
            try:
                self._nvml = Nvml()
            except NoNvml as error:
                self.missing = str(error)

    def read(self) -> dict[str, float]:
        """What is known: utilization (percent), temperature (Celsius), power (watts), memory (GiB), fragmentation."""
        if self.device.type != "cuda":
            return {}
        reserved, used = torch.cuda.max_memory_reserved(self.device), torch.cuda.max_memory_allocated(self.device)
        row = {"reserved_gib": reserved / 2**30, "fragmentation": 1.0 - used / reserved if reserved else 0.0}
        if self._nvml is not None:
            try:
                load = self._nvml.load(str(torch.cuda.get_device_properties(self.device).uuid))
            except NoNvml as error:
                self._nvml, self.missing = None, str(error)
                return row
            held = None if load.memory_used is None else load.memory_used / 2**30
            told = {"utilization": load.utilization, "temperature": load.temperature, "power": load.power}
            row |= {name: value for name, value in {**told, "memory_gib": held}.items() if value is not None}
        return row


def fragmentation_warning(row: dict[str, float]) -> str | None:
    """The warning that a row of `DeviceLoad.read` is worth, if any."""
    if row.get("fragmentation", 0.0) <= FRAGMENTED:
        return None
    return (
        f"{row['fragmentation']:.0%} of the {row['reserved_gib']:.1f} GiB of reserved GPU memory was never in use "
        "(fragmentation); set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"
    )


class Meter:
    """Turns the steps since it was last read into a row of metrics, equal on all ranks; warns of what slows them."""

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
        """Forget what was counted: the time since was not spent on steps."""
        self.stopwatch.read()
        self.communication.read()
        self.cost.forget()
        self.frames = self.padded = 0.0

    def read(self, step: int, epoch: int, losses: Tensors, norms: Tensors) -> dict[str, float]:
        """The row after `step` steps, from this rank's share of the losses; every rank must call it. Starts anew."""
        summed = self.ranks.sum(floats(losses))
        wall, shares = self._shares()
        load = self.load.read()
        figures = self.ranks.gather({"time": shares, "gpu": load, "warnings": self._warnings(wall, shares, load)})
        row = {f"train/{name}": value for name, value in summed.items()}
        row["train/loss"] = sum(term.weight * summed[name] for name, term in self.recipe.phases[0].terms.items())
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
        row = {f"time/{name}": value for name, value in mean_over_ranks(times).items()}
        row |= {f"gpu/{name}": value for name, value in mean_over_ranks(loads).items()}
        if self.ranks.world_size > 1:
            row |= by_rank("time", times) | by_rank("gpu", loads)
        return row

    def _warnings(self, wall: float, shares: dict[str, float], load: dict[str, float]) -> dict[str, str]:
        """This rank's warnings, by kind."""
        found = {}
        waited = shares.get("data", 0.0)
        if waited > loading.LIMIT:
            cores = max(1, usable_cores() // int(os.environ.get("LOCAL_WORLD_SIZE", "1")))
            kind, sentence = loading.cause_of_waiting(self.cost, wall, self.workers, cores)
            found[f"waiting for {kind}"] = f"{waited:.1%} of the steps' time went into waiting for data. {sentence}"
        if fragmented := fragmentation_warning(load):
            found["fragmentation"] = fragmented
        if self.load.missing:
            found["nvml"] = f"GPU utilization and temperature are not known: {self.load.missing}"
        return found

    def _warn(self, warnings: list[dict[str, str]]) -> None:
        """Print each kind once for each rank, all from rank 0."""
        for rank, found in enumerate(warnings):
            for kind, sentence in found.items():
                if self.ranks.first and (rank, kind) not in self._warned:
                    self._warned.add((rank, kind))
                    print(f"warning: rank {rank}: {sentence}", file=sys.stderr, flush=True)


def floats(values: Tensors) -> dict[str, float]:
    """Scalar tensors as numbers; makes a GPU finish its work."""
    return {name: float(value) for name, value in values.items()}
