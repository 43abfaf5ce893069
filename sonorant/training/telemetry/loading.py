"""Cost of making batches, and from it the cause of waiting for data.

A batch carries its cost, because a worker process may have made it.
"""

import resource
import time
from dataclasses import astuple, dataclass

import torch
from torch.utils.data import Dataset

from sonorant.features.batches import Batch
from sonorant.features.feature_store import FeatureStore

COST = "cost"
"""Batch key of the cost: (4,) float64, the fields of `Cost`; taken out before a model sees the batch."""
LIMIT = 0.02
"""Share of the steps' time above which waiting for data is worth a warning."""
BUSY = 0.7
"""Share of their time below which loader processes lack cores."""


@dataclass(kw_only=True)
class Cost:
    """Cost of making some batches, all processes together."""

    reading: float = 0.0
    """Seconds spent reading features."""
    transforming: float = 0.0
    """Seconds spent making them into tensors."""
    computing: float = 0.0
    """Seconds with a core: less than the sum of the others where cores are scarce or a disk is slow."""
    faults: float = 0.0
    """Pages read from a disk."""

    def forget(self) -> None:
        """Start anew."""
        self.reading = self.transforming = self.computing = self.faults = 0.0

    def take(self, batch: Batch) -> Batch:
        """Count a batch of `MeasuredDataset`, and return it without its cost."""
        reading, transforming, computing, faults = batch.pop(COST).tolist()
        self.reading += reading
        self.transforming += transforming
        self.computing += computing
        self.faults += faults
        return batch


class MeasuredDataset(Dataset[Batch]):
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


def cause_of_waiting(cost: Cost, wall: float, workers: int, cores: int) -> tuple[str, str]:
    """Cause of waiting for data (storage, workers or transforms), and a sentence with the remedy.

    Args:
        cost: of the batches loaded in `wall` seconds.
        workers: loader processes of this rank; 0: the training process loads itself.
        cores: that this rank may use.
    """
    working = cost.reading + cost.transforming
    if cost.reading > cost.transforming:
        cause, remedy = "storage", "set data.preload to memory or folder"
        why = f"{cost.reading:.2f} s of {working:.2f} s of loading went into reading, {cost.faults:.0f} pages from disk"
    elif workers == 0:
        cause, remedy = "transforms", "set data.workers to 1 or more"
        why = f"the training process itself spent {cost.transforming:.2f} s making tensors"
    elif cost.computing < BUSY * cost.transforming or workers >= cores:
        cause, remedy = "workers", "lower data.workers, or give this rank more cores"
        why = f"the {workers} had a core for {cost.computing:.2f} s of the {cost.transforming:.2f} s they worked"
    else:
        cause, remedy = "workers", f"set data.preload to memory, or raise data.workers (this rank has {cores} cores)"
        why = f"the {workers} worked for {working:.2f} s of {wall:.2f} s"
    return cause, f"{cause}: {why}; {remedy}"
