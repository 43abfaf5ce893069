"""The worker on machines of which the second has little memory: rank 1 runs out of it.

SCARCE says how: `passes`, a pass over more than SCARCE_LIMIT values of mels fails on its way back, over twice as many
on its way forward; `address_space`, the kernel really refuses more than SCARCE_LIMIT MiB beyond what there is at the
first step; `budget`, a budget above SCARCE_LIMIT does not fit.
"""

from __future__ import annotations

import os
import resource
from pathlib import Path

import torch

from sonorant.families.parallel import training as acoustic
from sonorant.training import memory, worker
from sonorant.training.step import TrainStep
from sonorant.training.trainer import Trainer
from tests.training.exhausted import Exhausted

KIND, LIMIT = os.environ["SCARCE"], int(os.environ["SCARCE_LIMIT"])


class ScarcePasses(acoustic.AcousticLosses):
    """Fails where a pass is large."""

    def forward(self, batch, step):  # type: ignore[no-untyped-def]
        values = batch["mel"].numel()
        if values > 2 * LIMIT:
            raise torch.OutOfMemoryError("Tried to allocate more than there is")
        hook = self.model.encoder.register_forward_hook(
            lambda module, given, out: Exhausted.apply(out) if values > LIMIT else out
        )
        losses = super().forward(batch, step)
        hook.remove()
        return losses


class ScarceAddressSpace(acoustic.AcousticLosses):
    """Fails where the kernel does not give more."""

    def forward(self, batch, step):  # type: ignore[no-untyped-def]
        if resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY:
            used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (used + LIMIT * 2**20, resource.RLIM_INFINITY))
        return super().forward(batch, step)


class Compared(Trainer):
    """Says in the end whether training has kept the ranks together."""

    def train(self) -> str:
        state = super().train()
        weights = b"".join(parameter.detach().numpy().tobytes() for parameter in self.recipe.model.parameters())
        if len(set(self.ranks.gather(weights))) == 1 and self.ranks.first:
            print("in the end all ranks hold the same weights", flush=True)
        return state


def scarce_peak(trained: TrainStep, trial: int, really=memory._peak_of) -> int | None:  # type: ignore[no-untyped-def]
    return None if trial > LIMIT else really(trained, trial)


if __name__ == "__main__":
    worker.Trainer = Compared  # type: ignore[misc]
    memory.STEPS_AN_EPOCH = 1
    if os.environ["RANK"] == "1":
        if KIND == "budget":
            memory._peak_of = scarce_peak
        else:
            acoustic.AcousticLosses = {"passes": ScarcePasses, "address_space": ScarceAddressSpace}[KIND]  # type: ignore[misc]
    worker.main()
