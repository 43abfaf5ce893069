"""Settings that every training has, and those of the machine it runs on (sections `data` and `machine`).

No stage depends on the machine's: changing one trains nothing again.
"""

import math
import os
from dataclasses import dataclass, field
from typing import Literal

import torch

from sonorant.processes import usable_cores


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """How long, how fast and how exactly to train. Ranks, threads and devices are for the machine to decide."""

    steps: int
    """Optimizer steps in all."""
    micro_batches_per_step: int
    """Micro-batches of an optimizer step, whatever the number of ranks: together they are the global batch."""
    learning_rate: float
    """Peak learning rate of AdamW."""
    warmup_steps: int
    """Steps of linear warm-up; a cosine down to a twentieth follows."""
    weight_decay: float
    clip_norm: float
    """Gradient norm above which the gradient is scaled down."""
    ema_decay: float
    """Decay of the exponential moving average of the weights, which is saved in the end."""
    precision: Literal["auto", "fp32", "bf16", "fp16"]
    """auto: the fastest on this device, found at the start of a run, see training/precision.py; bf16: autocast; fp16:
    autocast with a gradient scaler, GPU only."""
    seed: int
    validate_every: int
    """Steps between validations, each with a mel picture and a playable sample."""
    checkpoint_every: int
    """Steps between checkpoints; a SIGTERM saves one too."""
    log_every: int
    """Steps between rows of metrics.jsonl."""
    betas: list[float] = field(default_factory=lambda: [0.9, 0.98])
    """AdamW's two. The default is for settings of before."""
    init_from: str | None = None
    """Fine-tune these weights: a checkpoint, a trained model, a run directory, a bundle, models:/<name>@<alias>."""
    activation_checkpointing: bool = False
    """Compute activations again in the backward pass: less memory, about a quarter more time."""
    compile: bool = False
    """torch.compile the blocks: for GPUs; needs a C++ compiler, and minutes at the start."""

    def __post_init__(self) -> None:
        for name in ("steps", "micro_batches_per_step", "validate_every", "checkpoint_every", "log_every"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        if not 0.0 <= self.ema_decay < 1.0:
            raise ValueError(f"ema_decay must be at least 0 and below 1, not {self.ema_decay}")
        if len(self.betas) != 2 or not all(0.0 <= beta < 1.0 for beta in self.betas):
            raise ValueError(f"betas must be two numbers of at least 0 and below 1, not {self.betas}")
        if self.learning_rate <= 0 or self.clip_norm <= 0:
            raise ValueError("learning_rate and clip_norm must be above 0")

    def learning_rate_at(self, step: int) -> float:
        """The learning rate of optimizer step `step` (from 0): by the step alone, so no scheduler has to be resumed."""
        if step < self.warmup_steps:
            return self.learning_rate * (step + 1) / self.warmup_steps
        progress = (step - self.warmup_steps) / max(1, self.steps - self.warmup_steps)
        return self.learning_rate * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * min(1.0, progress))))


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """How features reach the training."""

    preload: Literal["none", "memory", "folder"] = "none"
    """none: read features where they are; memory: read them once into memory; folder: copy them to `preload_folder`."""
    preload_folder: str | None = None
    """On a disk of this machine, for features on slow storage."""
    workers: int | None = None
    """Loader processes a rank; None: none on CPUs, up to four a GPU."""

    def __post_init__(self) -> None:
        if self.preload == "folder" and not self.preload_folder:
            raise ValueError("preload: folder needs preload_folder, a path on a disk of this machine")
        if self.workers is not None and self.workers < 0:
            raise ValueError(f"workers must be at least 0, not {self.workers}")


@dataclass(frozen=True, kw_only=True)
class MachineConfig:
    """How much of this machine a training may take, and how long it waits for it."""

    memory_share: float = 0.85
    """Share of a device's memory that a frame budget `auto` may fill."""
    stall_warning: float = 60.0
    """Seconds without progress after which a rank is reported."""
    stall_limit: float = 900.0
    """Seconds without progress after which training ends, to be started again from its checkpoint."""

    def __post_init__(self) -> None:
        if not 0.0 < self.memory_share <= 1.0:
            raise ValueError(f"memory_share must be above 0 and at most 1, not {self.memory_share}")
        if not 0.0 < self.stall_warning <= self.stall_limit:
            raise ValueError("stall_warning must be above 0 and at most stall_limit")

    @property
    def patience(self) -> float:
        """Seconds a rank waits for another: above `stall_limit`, so that the watchdog first says who is waited for."""
        return self.stall_limit + 60.0


def loader_workers(data: DataConfig) -> int:
    """Loader processes a rank: none where the cores are busy computing anyway."""
    if data.workers is not None:
        return data.workers
    cores = usable_cores() // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    return max(0, min(4, cores - 1)) if torch.cuda.is_available() else 0
