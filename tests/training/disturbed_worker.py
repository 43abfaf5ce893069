"""`sonorant.training.worker` with a delay or too little memory; DISTURBED names a function below."""

import io
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import Dataset

from sonorant.families.parallel.acoustic_training import AcousticLosses, AcousticRecipe
from sonorant.features.batches import Batch
from sonorant.features.plan import MicroBatch
from sonorant.files import atomic_file
from sonorant.training import checkpoint, run_directory, trainer, worker
from sonorant.training.trainer import Trainer
from tests.support.trainings import SLOW_WRITE


class Delayed(Dataset[Batch]):
    def __init__(self, whole: Dataset[Batch], wait: Callable[[int], object]) -> None:
        self.whole, self.wait = whole, wait

    def __len__(self) -> int:
        return len(self.whole)

    def __getitem__(self, index: int) -> Batch:
        self.wait(index)
        return self.whole[index]


class Exhausted(torch.autograd.Function):
    """Runs out of memory in backward, after later gradients are computed."""

    @staticmethod
    def forward(ctx, x):  # type: ignore[no-untyped-def]
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):  # type: ignore[no-untyped-def]
        raise torch.OutOfMemoryError("Tried to allocate more than there is")


def held() -> None:
    """The last rank takes no step after HELD_AT until it is stopped."""
    take_step = Trainer.take_step

    def held_step(self: Trainer, *given: Any) -> Any:
        last = self.ranks.rank == self.ranks.world_size - 1
        while last and self.step == int(os.environ["HELD_AT"]) and not self._stop:
            time.sleep(0.01)
        return take_step(self, *given)

    Trainer.take_step = held_step


def impatient() -> None:
    run_directory.PATIENCE = 1.0


def hanging_loader() -> None:
    dataset = AcousticRecipe.dataset

    def hanging(self: AcousticRecipe, batches: list[MicroBatch]) -> Dataset[Batch]:
        whole = dataset(self, batches)
        hangs = os.environ["RANK"] == "1" and batches[0].epoch > 0
        return Delayed(whole, lambda index: time.sleep(3600 if index else 0)) if hangs else whole

    AcousticRecipe.dataset = hanging


def slow_loader() -> None:
    dataset, epochs = AcousticRecipe.dataset, int(os.environ["SLOW_EPOCHS"])

    def slow(self: AcousticRecipe, batches: list[MicroBatch]) -> Dataset[Batch]:
        whole = dataset(self, batches)
        planted = os.environ["RANK"] == "1" and bool(batches) and batches[0].epoch < epochs
        return Delayed(whole, lambda index: time.sleep(0.5)) if planted else whole

    AcousticRecipe.dataset = slow


def scarce_passes() -> None:
    """Rank 1 runs out of memory above SCARCE_LIMIT mel values in backward, and above twice as many in forward."""
    forward, limit = AcousticLosses.forward, int(os.environ["SCARCE_LIMIT"])

    def passed(self: AcousticLosses, batch: Batch, step: int) -> dict[str, torch.Tensor]:
        values = batch["mel"].numel()
        if values > 2 * limit:
            raise torch.OutOfMemoryError("Tried to allocate more than there is")
        hook = self.model.encoder.register_forward_hook(
            lambda module, given, out: Exhausted.apply(out) if values > limit else out
        )
        losses = forward(self, batch, step)
        hook.remove()
        return losses

    if os.environ["RANK"] == "1":
        AcousticLosses.forward = passed


class SlowFile(io.FileIO):
    """Pauses in the middle of every write."""

    def write(self, data: Any) -> int:
        view = memoryview(data)
        written = super().write(view[: len(view) // 2]) or 0
        time.sleep(SLOW_WRITE)
        return written + (super().write(view[len(view) // 2 :]) or 0)


class SlowPath(type(Path())):  # type: ignore[misc]
    def open(self, mode: str = "wb") -> SlowFile:
        return SlowFile(self, mode)


def slow_disk() -> None:
    """Make checkpoints slow, so that a kill can hit a write."""

    @contextmanager
    def slow_atomic_file(path: Path) -> Iterator[Path]:
        with atomic_file(path) as temporary:
            yield SlowPath(temporary)

    checkpoint.atomic_file = slow_atomic_file


DISTURBANCES: dict[str, Callable[[], None]] = {
    plant.__name__: plant
    for plant in (
        held,
        impatient,
        hanging_loader,
        slow_loader,
        scarce_passes,
        slow_disk,
    )
}


if __name__ == "__main__":
    trainer.STEPS_LOADED = 1
    DISTURBANCES[os.environ["DISTURBED"]]()
    worker.main()
