"""Cost of loading batches, and the cause of waiting for data. A batch carries its cost from its worker process."""

import resource
import time
from dataclasses import astuple, dataclass

import torch
from torch.utils.data import Dataset

from sonorant.features.batches import Batch
from sonorant.features.feature_store import FeatureStore

COST = "cost"
"""Batch key of the cost, (4,) float64, the fields of `Cost`; removed before the model."""
LIMIT = 0.02
"""Share of time waiting for data that causes a warning."""
BUSY = 0.7
"""CPU share of loader processes below which they lack cores."""


@dataclass(kw_only=True)
class Cost:
    """Cost of loading some batches in all processes."""

    reading: float = 0.0
    """Seconds spent reading features."""
    transforming: float = 0.0
    """Seconds spent making tensors."""
    computing: float = 0.0
    """CPU seconds."""
    faults: float = 0.0
    """Pages read from a disk."""

    def forget(self) -> None:
        self.reading = self.transforming = self.computing = self.faults = 0.0

    def take(self, batch: Batch) -> Batch:
        """Add a batch's cost and remove it from the batch."""
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
