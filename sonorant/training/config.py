"""Settings every training shares. Knows nothing of any one model."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """How long, how fast and how exactly to train. What the machine decides (ranks, threads, devices) is not here."""

    steps: int
    """Optimizer steps in all."""
    micro_batches_per_step: int
    """Micro-batches an optimizer step takes, whatever the number of ranks: together they are the global batch."""
    learning_rate: float
    """Peak learning rate of AdamW."""
    warmup_steps: int
    """Steps of linear warm-up; a cosine down to a twentieth follows."""
    weight_decay: float
    clip_norm: float
    """Gradient norm above which the gradient is scaled down."""
    ema_decay: float
    """Decay of the exponential moving average of the weights, which is what is saved in the end."""
    precision: Literal["fp32", "bf16", "fp16"]
    """bf16: autocast; fp16: autocast with a gradient scaler, GPU only."""
    seed: int
    validate_every: int
    """Steps between validations, each with a mel picture and a playable sample."""
    checkpoint_every: int
    """Steps between checkpoints; a stop by SIGTERM saves one too."""
    log_every: int
    """Steps between rows of metrics.jsonl."""
    init_from: str | None = None
    """Fine-tune these weights: a checkpoint, a trained model folder, a run directory, a voice bundle, models:/<name>@<alias>."""
    activation_checkpointing: bool = False
    """Compute the blocks' activations again in the backward pass instead of keeping them: less memory, about a quarter more time."""
    compile: bool = False
    """torch.compile the blocks: for GPUs; needs a C++ compiler, and minutes at the start."""

    def __post_init__(self) -> None:
        for name in ("steps", "micro_batches_per_step", "validate_every", "checkpoint_every", "log_every"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        if not 0.0 <= self.ema_decay < 1.0:
            raise ValueError(f"ema_decay must be at least 0 and below 1, not {self.ema_decay}")
        if self.learning_rate <= 0 or self.clip_norm <= 0:
            raise ValueError("learning_rate and clip_norm must be above 0")

    def learning_rate_at(self, step: int) -> float:
        """The learning rate of optimizer step `step` (from 0): a function of the step alone, so there is no scheduler to resume."""
        if step < self.warmup_steps:
            return self.learning_rate * (step + 1) / self.warmup_steps
        progress = (step - self.warmup_steps) / max(1, self.steps - self.warmup_steps)
        return self.learning_rate * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * min(1.0, progress))))
