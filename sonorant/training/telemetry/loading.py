"""Measure the time to load batches, and find the cause of waiting for data. Each batch carries its time from the worker
process."""

import time
from dataclasses import dataclass

import torch
from torch.utils.data import Dataset

from sonorant.features.batches import Batch
from sonorant.features.feature_store import FeatureStore

COST = "cost"
"""Batch key of the loading time, (2,) float64, the fields of `Cost`; removed before the model is called."""


@dataclass(kw_only=True)
class Cost:
    reading: float = 0.0
    """Seconds spent reading features."""
    transforming: float = 0.0
    """Seconds spent making tensors."""

    def take(self, batch: Batch) -> Batch:
        """Add a batch's loading time and remove it from the batch."""
        reading, transforming = batch.pop(COST).tolist()
        self.reading += reading
        self.transforming += transforming
        return batch


class MeasuredDataset(Dataset[Batch]):
    def __init__(self, dataset: Dataset[Batch], store: FeatureStore) -> None:
        self.dataset, self.store = dataset, store

    def __len__(self) -> int:
        return len(self.dataset)  # type: ignore[arg-type]

    def __getitem__(self, index: int) -> Batch:
        read, start = self.store.seconds_reading, time.perf_counter()
        batch = self.dataset[index]
        reading = self.store.seconds_reading - read
        cost = [reading, time.perf_counter() - start - reading]
        return {**batch, COST: torch.tensor(cost, dtype=torch.float64)}


def cause_of_waiting(cost: Cost, workers: int) -> tuple[str, str]:
    """Return the cause of waiting for data (storage, workers or transforms), and a sentence with the remedy."""
    if cost.reading > cost.transforming:
        cause, remedy = "storage", "set data.preload to memory or folder"
    elif workers == 0:
        cause, remedy = "transforms", "set data.workers to 1 or more"
    else:
        cause, remedy = "workers", f"raise data.workers above {workers}, or give this rank more cores"
    spent = f"reading took {cost.reading:.2f} s, making tensors {cost.transforming:.2f} s"
    return cause, f"{cause}: {spent}; {remedy}"
