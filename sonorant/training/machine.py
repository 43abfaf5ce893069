"""How this machine trains: what may differ between machines without making another voice. Knows nothing of models.

Sections `data` and `machine` of params.yaml: no stage depends on them, so changing one trains nothing again.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Literal

import torch


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """How features reach the training."""

    preload: Literal["none", "memory", "folder"] = "none"
    """none: read from where they are; memory: read once into memory; folder: copied once to `preload_folder`."""
    preload_folder: str | None = None
    """On a disk of this machine, for features on slow storage."""
    workers: int | None = None
    """Loader processes a rank; None: none on CPUs, up to four a GPU."""

    def __post_init__(self) -> None:
        if self.preload == "folder" and not self.preload_folder:
            raise ValueError("preload: folder needs preload_folder, a path on a disk of this machine")
        if self.workers is not None and self.workers < 0:
            raise ValueError(f"workers must be at least 0, not {self.workers}")


@dataclass(frozen=True, kw_only=True)
class MachineConfig:
    """What a training may take of this machine, and how long it waits for it."""

    memory_share: float = 0.85
    """Share of a device's memory that a frame budget `auto` may fill."""
    stall_warning: float = 60.0
    """Seconds without progress after which a rank is reported."""
    stall_limit: float = 900.0
    """Seconds without progress after which training ends, to be started again from its checkpoint."""

    def __post_init__(self) -> None:
        if not 0.0 < self.memory_share <= 1.0:
            raise ValueError(f"memory_share must be above 0 and at most 1, not {self.memory_share}")
        if not 0.0 < self.stall_warning <= self.stall_limit:
            raise ValueError("stall_warning must be above 0 and at most stall_limit")

    @property
    def patience(self) -> float:
        """Seconds a rank waits for another one: longer than `stall_limit`, so that the watchdog says first who is waited for."""
        return self.stall_limit + 60.0


def loader_workers(data: DataConfig) -> int:
    """Loader processes a rank: none where the cores are busy computing anyway."""
    if data.workers is not None:
        return data.workers
    cores = len(os.sched_getaffinity(0)) // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    return max(0, min(4, cores - 1)) if torch.cuda.is_available() else 0
