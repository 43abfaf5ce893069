"""Settings that every training has, and those of the machine it runs on (sections `data` and `machine`).

No stage depends on the machine's: changing one trains nothing again.
"""

import math
import os
from dataclasses import dataclass, field, replace
from typing import Literal, Self

import torch

from sonorant.processes import usable_cores

EXPONENTS = {"square_root": 0.5, "linear": 1.0}
"""Of the ratio of two batches, for the ratio of their learning rates."""


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """How long, how fast and how exactly to train. Ranks, threads and devices are for the machine to decide."""

    steps: int
    """Optimizer steps in all."""
    micro_batches_per_step: int
    """Micro-batches of an optimizer step, whatever the number of ranks: together they are the global batch."""
    learning_rate: float
    """Peak learning rate of AdamW, at a batch of `learning_rate_batch`."""
    warmup_steps: int
    """Steps of linear warm-up; a cosine down to a twentieth follows."""
    weight_decay: float
    clip_norm: float
    """Gradient norm above which the gradient is scaled down."""
    clip_norm_fp16: float | None = None
    """The same where the precision is fp16; None: `clip_norm`. Only fp16 overflows, at 65504, and `precision: auto`
    takes it on older GPUs alone: what it needs there should not change how other machines train."""
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
    patience: int | None = None
    """Validations in a row without a certainly better held-out loss, after which training ends, see
    training/patience.py; None: it goes on to the last step. The default is for settings of before."""
    learning_rate_batch: int | None = None
    """The batch that `learning_rate` is for: micro_batches_per_step times what a micro-batch may hold, in its own unit.
    For another batch the rate is scaled. None: it stays, as in settings of before."""
    learning_rate_scaling: Literal["square_root", "linear"] = "square_root"
    """How the rate follows the batch. The square root keeps the variance of an update (Krizhevsky 2014, "One weird
    trick for parallelizing convolutional neural networks") and is the rule for Adam (Malladi et al. 2022, "On the SDEs
    and scaling rules for adaptive gradient algorithms"; theirs moves the betas too, here they stay)."""
    speaker_balance: float = 0.0
    """How much more often than once an epoch takes the recordings of speakers who have fewer: 0 not at all, 1 until all
    speakers are heard alike, see `sonorant.features.plan.balanced`. The default is for settings of before."""
    window_shards: int | None = None
    """Shards of features that are planned and shuffled at a time, for a large corpus; None: the whole corpus is. See
    `sonorant.features.windows`. The default is for settings of before."""
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
        if self.clip_norm_fp16 is not None and self.clip_norm_fp16 <= 0:
            raise ValueError(f"clip_norm_fp16 must be above 0 or null, not {self.clip_norm_fp16}")
        if not 0.0 <= self.speaker_balance <= 1.0:
            raise ValueError(f"speaker_balance must be from 0 to 1, not {self.speaker_balance}")
        if self.patience is not None and self.patience < 1:
            raise ValueError(f"patience must be at least 1 or null, not {self.patience}")
        if self.window_shards is not None and self.window_shards < 1:
            raise ValueError(f"window_shards must be at least 1 or null, not {self.window_shards}")
        if self.learning_rate_batch is not None and self.learning_rate_batch < 1:
            raise ValueError(f"learning_rate_batch must be at least 1 or null, not {self.learning_rate_batch}")

    def from_scratch(self) -> Self:
        """The same training without what it is to start from."""
        return replace(self, init_from=None)

    def learning_rate_at(self, step: int, budget: int | None) -> float:
        """The learning rate of optimizer step `step` (from 0) where a micro-batch may hold `budget`.

        By these alone, and a checkpoint keeps the budget: no scheduler has to be resumed, on however many ranks.
        """
        peak = self.learning_rate * self.learning_rate_factor(budget)
        if step < self.warmup_steps:
            return peak * (step + 1) / self.warmup_steps
        progress = (step - self.warmup_steps) / max(1, self.steps - self.warmup_steps)
        return peak * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * min(1.0, progress))))

    def learning_rate_factor(self, budget: int | None) -> float:
        """By what `learning_rate` is multiplied: exactly 1 at `learning_rate_batch`, or while no `budget` is found."""
        if budget is None or self.learning_rate_batch is None:
            return 1.0
        ratio = self.micro_batches_per_step * budget / self.learning_rate_batch
        return ratio ** EXPONENTS[self.learning_rate_scaling]

    def describe_learning_rate(self, budget: int) -> str:
        """A line for the log: the peak learning rate, its factor and why."""
        if self.learning_rate_batch is None:
            return f"learning rate {self.learning_rate:g}, whatever the batch"
        batch, factor = self.micro_batches_per_step * budget, self.learning_rate_factor(budget)
        if factor == 1.0:
            return f"learning rate {self.learning_rate:g}: a step's batch is {batch}, the learning_rate_batch"
        rate = f"learning rate {self.learning_rate * factor:.4g}, {factor:.4g} times {self.learning_rate:g}"
        belongs = f"learning_rate_batch {self.learning_rate_batch} ({self.learning_rate_scaling})"
        return f"{rate}: a step's batch is {batch}, {belongs}"

    def clip_norm_in(self, precision: str | None) -> float:
        """Gradient norm above which the gradient is scaled down in this precision."""
        return self.clip_norm_fp16 if precision == "fp16" and self.clip_norm_fp16 is not None else self.clip_norm


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
