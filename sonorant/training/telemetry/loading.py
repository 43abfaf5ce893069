"""What it takes to make batches, measured where they are made. Knows nothing of training steps.

A batch carries its own figures, because it may have been made by a worker process.

Why training waits for its data: storage, workers or transforms. Knows nothing of how batches are made beyond what it
cost."""

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
    """Seconds in which the process had a core: less than the sum of the others where cores are scarce or a disk is
    waited for."""
    faults: float = 0.0
    """Pages that had to be read from a disk."""

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


LIMIT = 0.02
"""Share of the steps' time above which waiting for data is worth a warning."""


BUSY = 0.7
"""Share of their time in which loader processes work above which they are too few, or starved of cores."""


def cause_of_waiting(cost: Cost, wall: float, workers: int, cores: int) -> tuple[str, str]:
    """What made the ranks wait, as a word and as a sentence with its mend.

    Args:
        cost: of the batches loaded in `wall` seconds.
        workers: loader processes of this rank; 0: the training process loads itself.
        cores: that this rank may use.
    """
    working = cost.reading + cost.transforming
    if cost.reading > cost.transforming:
        return "storage", (
            f"storage: {cost.reading:.2f} s of {working:.2f} s of loading went into reading, with {cost.faults:.0f} "
            "pages from disk; "
            "set data.preload to memory or folder"
        )
    if workers == 0:
        return "transforms", (
            f"transforms: {cost.transforming:.2f} s of {working:.2f} s of loading went into making tensors, in the "
            "training process "
            "itself; set data.workers to 1 or more"
        )
    if cost.computing < BUSY * cost.transforming:
        return "workers", (
            f"workers: the {workers} had a core for only {cost.computing:.2f} s of the {cost.transforming:.2f} s "
            "they worked; "
            "lower data.workers, or give this rank more cores"
        )
    if working < BUSY * workers * wall:
        return "workers", (
            f"workers: the {workers} worked for {working:.2f} s of {wall:.2f} s and were waited for all the same, as "
            "when an epoch of few "
            "steps starts them anew; set data.workers to 0, or data.preload to memory"
        )
    if workers < cores:
        return (
            "workers",
            f"workers: the {workers} were busy all the time and too few; raise data.workers (this rank has {cores} "
            "cores)",
        )
    return "transforms", (
        f"transforms: making tensors took {cost.transforming:.2f} s in {wall:.2f} s, more than {cores} cores can do; "
        "give this rank more cores"
    )
