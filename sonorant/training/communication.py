"""How long gradients travel between the ranks, and how much of that the backward pass does not hide. Knows nothing of losses.

Measured by DistributedDataParallel itself: it averages a bucket of gradients as soon as the bucket is full, while the backward pass goes
on computing the next one; only what is left when the pass has computed its last gradient costs time.
"""

from __future__ import annotations

from collections.abc import Iterable

from torch.nn.parallel import DistributedDataParallel

NANOSECONDS = 1e-9


class Communication:
    """Sums what averaging took since it was last read.

    On CPUs every step is measured. On GPUs measuring makes the host wait for the step before, so it is one step in `every`, taken for
    all of them.
    """

    def __init__(self, wrapped: Iterable[DistributedDataParallel], every: int, on_gpu: bool) -> None:
        self.wrapped = list(wrapped)
        self.on_gpu = on_gpu
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
        """Seconds the backward passes waited for averaging, and seconds of averaging they hid, since the last reading; starts anew."""
        if self.on_gpu:
            self._add(self.steps)
        found = self.exposed, self.hidden
        self.steps, self.exposed, self.hidden = 0, 0.0, 0.0
        return found

    def _add(self, steps: int) -> None:
        for (
            module
        ) in self.wrapped:  # each knows its last measured step: the one before, for its end is seen at the next one's start
            told = module._get_ddp_logging_data()
            total = told.get("backward_comm_time", 0) * NANOSECONDS
            hidden = min(told.get("backward_compute_comm_overlap_time", 0) * NANOSECONDS, total)
            self.exposed += steps * (total - hidden)
            self.hidden += steps * hidden
