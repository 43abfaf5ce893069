"""What it takes to make batches, measured where they are made. Knows nothing of training steps.

A batch carries its own figures, because it may have been made by a worker process.
"""

from __future__ import annotations

import resource
import time
from dataclasses import astuple, dataclass

import torch
from torch.utils.data import Dataset

from sonorant.data.batches import Batch
from sonorant.data.features import FeatureStore

COST = "cost"
"""Batch key of what it took to make it: (4,) float64, the fields of `Cost`; taken out before a model sees the batch."""


@dataclass(kw_only=True)
class Cost:
    """What making some batches took, all processes together."""

    reading: float = 0.0
    """Seconds in which features were read from where they are."""
    transforming: float = 0.0
    """Seconds in which they were made into tensors."""
    computing: float = 0.0
    """Seconds in which the process had a core: less than the sum of the others where cores are scarce or a disk is waited for."""
    faults: float = 0.0
    """Pages that had to be read from a disk."""

    def forget(self) -> None:
        """Start anew."""
        self.reading = self.transforming = self.computing = self.faults = 0.0

    def take(self, batch: Batch) -> Batch:
        """Count a batch of `Measured`, and return it without its cost."""
        reading, transforming, computing, faults = batch.pop(COST).tolist()
        self.reading += reading
        self.transforming += transforming
        self.computing += computing
        self.faults += faults
        return batch


class Measured(Dataset[Batch]):
    """The batches of another dataset, each with its cost."""

    def __init__(self, dataset: Dataset[Batch], store: FeatureStore) -> None:
        self.dataset, self.store = dataset, store

    def __len__(self) -> int:
        return len(self.dataset)  # type: ignore[arg-type]

    def __getitem__(self, index: int) -> Batch:
        read, faults = self.store.seconds_reading, _faults()
        start, computed = time.perf_counter(), time.thread_time()
        batch = self.dataset[index]
        reading = self.store.seconds_reading - read
        cost = Cost(
            reading=reading,
            transforming=time.perf_counter() - start - reading,
            computing=time.thread_time() - computed,
            faults=float(_faults() - faults),
        )
        return {**batch, COST: torch.tensor(astuple(cost), dtype=torch.float64)}


def _faults() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_majflt
