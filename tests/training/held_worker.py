"""A worker whose last rank takes no step after HELD_AT until it is told to stop, so that no signal comes too late to
matter.

Takes the arguments of `sonorant.training.worker`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import torch

from sonorant.data.batches import Batch
from sonorant.data.plan import MicroBatch
from sonorant.training import worker
from sonorant.training.trainer import Trainer


class Held(Trainer):
    """The others wait for the last rank's gradients."""

    def take_step(
        self, micro_batches: list[MicroBatch], batches: Iterator[Batch]
    ) -> dict[str, dict[str, torch.Tensor]]:
        last = self.ranks.rank == self.ranks.world_size - 1
        while last and self.step == int(os.environ["HELD_AT"]) and not self._stop:
            time.sleep(0.01)
        return super().take_step(micro_batches, batches)


if __name__ == "__main__":
    worker.Trainer = Held  # type: ignore[misc]
    worker.main()
