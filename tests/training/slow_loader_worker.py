"""A rank whose loader hangs: rank 1 sleeps in it from its eleventh batch on. Takes the arguments of
`sonorant.training.worker`."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from torch.utils.data import Dataset

from sonorant.data.batches import Batch
from sonorant.data.plan import MicroBatch
from sonorant.families.parallel.training import AcousticRecipe
from sonorant.training import worker


class HangingStorage(Dataset[Batch]):
    """Batches that come until they do not."""

    def __init__(self, whole: Dataset[Batch], last: int) -> None:
        self.whole, self.last = whole, last

    def __len__(self) -> int:
        return len(self.whole)  # type: ignore[arg-type]

    def __getitem__(self, index: int) -> Batch:
        if index >= self.last:
            time.sleep(3600)
        return self.whole[index]


class HangingRecipe(AcousticRecipe):
    """The acoustic model, on storage that hangs for one rank in its second epoch."""

    def dataset(self, batches: list[MicroBatch]) -> Dataset[Batch]:
        whole = super().dataset(batches)
        hangs = os.environ["RANK"] == "1" and batches[0].epoch > 0
        return HangingStorage(whole, 1) if hangs else whole


def hanging(job: Any) -> HangingRecipe:
    """In place of `recipe_of`."""
    return HangingRecipe(job.model, job.train, Path(job.features))


if __name__ == "__main__":
    worker.recipe_of = hanging
    worker.main()
