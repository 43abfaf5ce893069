"""Settings of training, data loading and the machine."""

import math
import os
from dataclasses import dataclass, field, replace
from typing import Literal, Self

import torch

from sonorant.processes import usable_cores

AT_LEAST_ONE = (
    *("steps", "micro_batches_per_step", "validate_every", "checkpoint_every", "log_every"),
    *("patience", "window_shards", "learning_rate_batch"),
)


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """Settings of a training run, independent of ranks, threads and devices."""

    steps: int = 1200
    """Number of optimizer steps."""
    micro_batches_per_step: int = 2
    """Number of micro-batches per optimizer step, over all ranks."""
    learning_rate: float = 4e-3
    """Peak learning rate of AdamW for a batch of `learning_rate_batch`."""
    warmup_steps: int = 50
    """Steps of linear warm-up, before cosine decay to a twentieth of the peak."""
    weight_decay: float = 0.01
    """Weight decay of AdamW, for matrices only."""
    clip_norm: float = 1.0
    """Maximum gradient norm; larger gradients are scaled down."""
    ema_decay: float = 0.995
    """Decay of the moving average (EMA) of the weights, which becomes the trained model."""
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto"
    """auto: the fastest on this device (training/precision.py); bf16: autocast; fp16: autocast with a gradient scaler,
    on GPUs only."""
    seed: int = 1
    """Seed of initial weights, data order and dropout."""
    validate_every: int = 250
    """Steps between validations; each writes a mel picture and an audio sample."""
    checkpoint_every: int = 200
    """Steps between checkpoints; one is also saved on SIGTERM."""
    log_every: int = 10
    """Steps between rows of metrics.jsonl."""
    patience: int | None = None
    """Stop after this many consecutive validations without significant improvement (training/patience.py); None
    disables early stopping."""
    learning_rate_batch: int | None = None
    """Batch size (micro_batches_per_step times the budget) for which `learning_rate` is set. For other sizes it is
    scaled by the square root of the ratio (Krizhevsky 2014, "One weird trick for parallelizing convolutional neural
    networks"; for Adam, Malladi et al. 2022, "On the SDEs and scaling rules for adaptive gradient algorithms"). None
    disables scaling."""
    speaker_balance: float = 0.0
    """Oversampling of speakers with few recordings: 0 means none, 1 equal time for all; see
    `sonorant.features.plan.balanced`."""
    window_shards: int | None = None
    """Number of shards planned and shuffled together (see `sonorant.features.windows`); None means the whole corpus."""
    betas: list[float] = field(default_factory=lambda: [0.9, 0.98])
    """Betas of AdamW."""
    init_from: str | None = None
    """Initial weights for fine-tuning: a checkpoint, trained model, run directory, bundle or models:/<name>@<alias>."""
    activation_checkpointing: bool = False
    """Whether to recompute activations in the backward pass, which saves memory but takes a quarter more time."""
    compile: bool = False
    """Whether to torch.compile the blocks, which requires a C++ compiler and takes minutes at the start."""

    def __post_init__(self) -> None:
        for name in AT_LEAST_ONE:
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, not {value}")
        if not 0.0 <= self.ema_decay < 1.0:
            raise ValueError(f"ema_decay must be at least 0 and below 1, not {self.ema_decay}")
        if len(self.betas) != 2 or not all(0.0 <= beta < 1.0 for beta in self.betas):
            raise ValueError(f"betas must be two numbers, each at least 0 and below 1, not {self.betas}")
        if self.learning_rate <= 0 or self.clip_norm <= 0:
            raise ValueError("learning_rate and clip_norm must be above 0")
        if not 0.0 <= self.speaker_balance <= 1.0:
            raise ValueError(f"speaker_balance must be from 0 to 1, not {self.speaker_balance}")

    def from_scratch(self) -> Self:
        return replace(self, init_from=None)

    def learning_rate_at(self, step: int, budget: int | None) -> float:
        """Return the learning rate of step `step`, counted from 0; a pure function, so there is no state to resume."""
        peak = self.learning_rate * self.learning_rate_factor(budget)
        if step < self.warmup_steps:
            return peak * (step + 1) / self.warmup_steps
        progress = (step - self.warmup_steps) / max(1, self.steps - self.warmup_steps)
        return peak * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * min(1.0, progress))))

    def learning_rate_factor(self, budget: int | None) -> float:
        """Return the factor that scales the learning rate to the batch size; 1 if `budget` is None."""
        if budget is None or self.learning_rate_batch is None:
            return 1.0
        return math.sqrt(self.micro_batches_per_step * budget / self.learning_rate_batch)

    def describe_learning_rate(self, budget: int) -> str:
        if self.learning_rate_batch is None:
            return f"learning rate {self.learning_rate:g} for any batch size"
        batch, factor = self.micro_batches_per_step * budget, self.learning_rate_factor(budget)
        rate = f"learning rate {self.learning_rate * factor:.4g}, {factor:.4g} times {self.learning_rate:g}"
        return f"{rate}: batch size {batch}, learning_rate_batch {self.learning_rate_batch}"


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """Settings for loading features."""

    preload: Literal["none", "memory", "folder"] = "none"
    """none: read features in place; memory: load them into memory; folder: copy them to `preload_folder`."""
    preload_folder: str | None = None
    """Folder on a local disk for `preload: folder`."""
    workers: int | None = None
    """Number of loader processes per rank; None means 0 on CPUs, up to 4 per GPU."""

    def __post_init__(self) -> None:
        if self.preload == "folder" and not self.preload_folder:
            raise ValueError("preload: folder requires preload_folder, a path on a local disk")
        if self.workers is not None and self.workers < 0:
            raise ValueError(f"workers must be at least 0, not {self.workers}")


@dataclass(frozen=True, kw_only=True)
class MachineConfig:
    """Limits on memory and on time without progress."""

    memory_share: float = 0.85
    """Fraction of a device's memory that the budget `auto` may use."""
    stall_warning: float = 60.0
    """Seconds without progress after which a warning names the rank."""
    stall_limit: float = 900.0
    """Seconds without progress after which training is aborted."""

    def __post_init__(self) -> None:
        if not 0.0 < self.memory_share <= 1.0:
            raise ValueError(f"memory_share must be above 0 and at most 1, not {self.memory_share}")
        if not 0.0 < self.stall_warning <= self.stall_limit:
            raise ValueError("stall_warning must be above 0 and at most stall_limit")

    @property
    def patience(self) -> float:
        """Timeout of collectives in seconds; the watchdog reports a stalled rank earlier."""
        return self.stall_limit + 60.0


def loader_workers(data: DataConfig) -> int:
    if data.workers is not None:
        return data.workers
    cores = usable_cores() // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    return max(0, min(4, cores - 1)) if torch.cuda.is_available() else 0
