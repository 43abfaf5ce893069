"""A rank that writes its checkpoints slowly, so that a kill can hit it in the middle; torchrun starts it instead of
`sonorant.training.worker`."""

from __future__ import annotations

import io
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sonorant.files import atomic_file
from sonorant.training import checkpoint, worker

PAUSE = 0.15
"""Seconds in the middle of each of the writes that a checkpoint takes."""


class SlowFile(io.FileIO):
    """Pauses in the middle of every write."""

    def write(self, data: Any) -> int:
        """Write all of `data`, in two parts."""
        view = memoryview(data)
        written = super().write(view[: len(view) // 2]) or 0
        time.sleep(PAUSE)
        return written + (super().write(view[len(view) // 2 :]) or 0)


class SlowPath(type(Path())):  # type: ignore[misc]
    """Opens as a slow file."""

    def open(self, mode: str = "wb") -> SlowFile:
        """Open for writing bytes."""
        return SlowFile(self, mode)


@contextmanager
def slow_atomic_file(path: Path) -> Iterator[Path]:
    """`sonorant.files.atomic_file` on a slow disk."""
    with atomic_file(path) as temporary:
        yield SlowPath(temporary)


if __name__ == "__main__":
    checkpoint.atomic_file = slow_atomic_file
    worker.main()
