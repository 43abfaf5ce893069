"""What a training says of itself every few steps: losses, speed, where the time went, memory. Knows nothing of files or MLflow."""

from __future__ import annotations

import torch

from sonorant.data.plan import MicroBatch
from sonorant.training import memory
from sonorant.training.ranks import Ranks
from sonorant.training.recipe import Recipe
from sonorant.training.stopwatch import Stopwatch


class Meter:
    """Counts steps since it was last read and turns them into a row of metrics."""

    def __init__(self, recipe: Recipe, ranks: Ranks, stopwatch: Stopwatch) -> None:
        self.recipe, self.ranks, self.stopwatch = recipe, ranks, stopwatch
        self.frames = self.padded = 0.0

    def count(self, micro_batches: list[MicroBatch]) -> None:
        """A step over this global batch was taken."""
        for units in map(self.recipe.units, micro_batches):
            self.frames += units["frames"]
            self.padded += units["padded_frames"]

    def restart(self) -> None:
        """Forget what was counted: the time since then was not spent on steps."""
        self.stopwatch.read()
        self.frames = self.padded = 0.0

    def read(self, step: int, epoch: int, losses: dict[str, torch.Tensor], norms: dict[str, torch.Tensor]) -> dict[str, float]:
        """The row after `step` steps, from this rank's shares of the last step's losses; every rank must ask. Starts anew."""
        summed = self.ranks.sum(floats(losses))
        wall, shares = self.stopwatch.read()
        row = {f"train/{name}": value for name, value in summed.items()}
        row["train/loss"] = sum(
            term.weight * summed[name] for phase in self.recipe.phases[:1] for name, term in phase.terms.items()
        )
        row |= {f"train/gradient_norm_{name}": value for name, value in floats(norms).items()}
        row["train/learning_rate"] = self.recipe.config.learning_rate_at(step - 1)
        row["train/epoch"] = float(epoch)
        row["speed/audio_seconds_per_second"] = self.frames * self.recipe.seconds_per_frame / wall
        row |= {f"time/{phase}": share for phase, share in shares.items()}
        row["time/rest"] = max(0.0, 1.0 - sum(shares.values()))
        if self.padded:
            row["data/padding"] = 1.0 - self.frames / self.padded
        if self.recipe.budget is not None:
            row["data/budget"] = float(self.recipe.budget)
        row["memory/peak_gib"] = memory.peak(self.ranks.device) / 2**30
        self.frames = self.padded = 0.0
        return row


def floats(values: dict[str, torch.Tensor]) -> dict[str, float]:
    """Scalar tensors as numbers; a GPU has to finish its work for it."""
    return {name: float(value) for name, value in values.items()}
