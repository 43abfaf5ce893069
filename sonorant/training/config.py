"""Settings of training, data loading and the machine."""

import math
import os
from dataclasses import dataclass, field, replace
from typing import Annotated, Literal, Self

import torch

from sonorant.checked import Count, Fraction, Interval, Len, Partial, Positive, Seed, Share, Text, Whole
from sonorant.processes import usable_cores


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """Settings of a training run, independent of ranks, threads and devices."""

    steps: Count = 1200
    """Number of optimizer steps."""
    micro_batches_per_step: Count = 2
    """Number of micro-batches per optimizer step, over all ranks."""
    learning_rate: Share = 4e-3
    """Peak learning rate of AdamW for a batch of `learning_rate_batch`."""
    warmup_steps: Whole = 50
    """Steps of linear warm-up, before cosine decay to a twentieth of the peak."""
    weight_decay: Fraction = 0.01
    """Weight decay of AdamW, for matrices only."""
    clip_norm: Positive = 1.0
    """Maximum gradient norm; larger gradients are scaled down."""
    ema_decay: Partial = 0.995
    """Decay of the moving average (EMA) of the weights, which becomes the trained model."""
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto"
    """auto: the fastest on this device (training/precision.py); bf16: autocast; fp16: autocast with a gradient scaler,
    on GPUs only."""
    seed: Seed = 1
    """Seed of initial weights, data order and dropout."""
    validate_every: Count = 250
    """Steps between validations; each writes a mel picture and an audio sample."""
    checkpoint_every: Count = 200
    """Steps between checkpoints; one is also saved on SIGTERM."""
    log_every: Count = 10
    """Steps between rows of metrics.jsonl."""
    patience: Count | None = None
    """Stop after this many consecutive validations without significant improvement (training/patience.py); None
    disables early stopping."""
    learning_rate_batch: Count | None = None
    """Batch size (micro_batches_per_step times the budget) for which `learning_rate` is set. For other sizes it is
    scaled by the square root of the ratio (Krizhevsky 2014, "One weird trick for parallelizing convolutional neural
    networks"; for Adam, Malladi et al. 2022, "On the SDEs and scaling rules for adaptive gradient algorithms"). None
    disables scaling."""
    speaker_balance: Fraction = 0.0
    """Oversampling of speakers with few recordings: 0 means none, 1 equal time for all; see
    `sonorant.features.plan.balanced`."""
    window_shards: Count | None = None
    """Number of shards planned and shuffled together (see `sonorant.features.windows`); None means the whole corpus."""
    betas: Annotated[list[Partial], Len(2, 2)] = field(default_factory=lambda: [0.9, 0.98])
    """Betas of AdamW."""
    init_from: Text | None = None
    """Initial weights for fine-tuning: a checkpoint, trained model, run directory, bundle or models:/<name>@<alias>."""
    activation_checkpointing: bool = False
    """Whether to recompute activations in the backward pass, which saves memory but takes a quarter more time."""
    compile: bool = False
    """Whether to torch.compile the blocks, which requires a C++ compiler and takes minutes at the start."""

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
    preload_folder: Text | None = None
    """Folder on a local disk for `preload: folder`."""
    workers: Annotated[int, Interval(ge=0, le=1024)] | None = None
    """Number of loader processes per rank; None means 0 on CPUs, up to 4 per GPU."""

    def __post_init__(self) -> None:
        if self.preload == "folder" and not self.preload_folder:
            raise ValueError("preload: folder requires preload_folder, a path on a local disk")


@dataclass(frozen=True, kw_only=True)
class MachineConfig:
    """Limits on memory and on time without progress."""

    memory_share: Share = 0.85
    """Fraction of a device's memory that the budget `auto` may use."""
    stall_warning: Positive = 60.0
    """Seconds without progress after which a warning names the rank."""
    stall_limit: Positive = 900.0
    """Seconds without progress after which training is aborted."""

    def __post_init__(self) -> None:
        if self.stall_warning > self.stall_limit:
            raise ValueError(f"stall_warning must be at most stall_limit ({self.stall_limit:g})")

    @property
    def patience(self) -> float:
        """Timeout of collectives in seconds; the watchdog reports a stalled rank earlier."""
        return self.stall_limit + 60.0


def loader_workers(data: DataConfig) -> int:
    if data.workers is not None:
        return data.workers
    cores = usable_cores() // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    return max(0, min(4, cores - 1)) if torch.cuda.is_available() else 0
