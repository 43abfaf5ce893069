"""Micro-batches in pieces, where this rank's memory does not hold them whole. Knows nothing of losses, models or other ranks.

Losses are sums, so a micro-batch may be computed piece by piece, each some of its rows, without changing the step: equal to rounding,
except that dropout and a flow's noise are drawn per piece. A piece is measured in the values of its tensors.
"""

from __future__ import annotations

import gc
from dataclasses import dataclass
from pathlib import Path

import torch

from sonorant.data.batches import Batch
from sonorant.errors import SonorantError
from sonorant.files import read_json, write_json

ALLOCATION_FAILED = ("can't allocate memory", "CUBLAS_STATUS_ALLOC_FAILED", "CUDNN_STATUS_ALLOC_FAILED")
"""How RuntimeErrors of torch's CPU allocator and of CUDA's libraries say it."""


@dataclass(frozen=True)
class Piece:
    """Some rows of a batch, in one pass."""

    first: int
    """Place of its first row in the batch."""
    batch: Batch

    @property
    def rows(self) -> int:
        """How many; every tensor of a batch has them as its first size."""
        return len(next(iter(self.batch.values())))

    @property
    def size(self) -> int:
        """Values in all its tensors."""
        return sum(tensor.numel() for tensor in self.batch.values())

    def cut(self, rows: int) -> list[Piece]:
        """The same in pieces of at most `rows` rows."""
        return [
            Piece(self.first + start, {name: tensor[start : start + rows] for name, tensor in self.batch.items()})
            for start in range(0, self.rows, rows)
        ]


class Pieces:
    """The largest piece this rank takes in each phase: halved when memory runs out, and kept in a file for this machine's next start."""

    def __init__(self, who: str, kept: Path | None = None) -> None:
        """`who` is this rank for a person; without a file `kept`, nothing outlasts the process."""
        self._who, self._kept = who, kept
        self._largest: dict[str, int] = read_json(kept) if kept and kept.exists() else {}
        self._proven: dict[str, int] = {}
        if self._largest:
            self._say(f"memory ran out here before, so micro-batches are taken in pieces; remove {kept} to try them whole again")

    def of(self, phase: str, batch: Batch) -> list[Piece]:
        """The batch in pieces that are not too large; a single row is one however large it is."""
        whole = Piece(0, batch)
        largest = self._largest.get(phase, whole.size)
        return whole.cut(max(1, min(whole.rows, largest * whole.rows // whole.size)))

    def proven(self, phase: str, piece: Piece) -> bool:
        """Whether this process has brought a piece as large through forward and backward."""
        return piece.size <= self._proven.get(phase, 0)

    def prove(self, phase: str, piece: Piece) -> None:
        """It has brought this one through."""
        self._proven[phase] = max(self._proven.get(phase, 0), piece.size)

    def halve(self, phase: str, piece: Piece) -> list[Piece]:
        """The halves of a piece for which memory did not suffice; nothing larger is taken from now on.

        Raises SonorantError where it is a single row.
        """
        if piece.rows == 1:
            raise SonorantError(
                f"{self._who}: out of memory in {phase} with a single row of {piece.size} values: set activation_checkpointing: "
                "true, or shorten what is trained on (prepare.max_seconds, train_vocoder.segment_frames)"
            )
        halves = piece.cut((piece.rows + 1) // 2)
        self._largest[phase] = halves[0].size
        self._proven[phase] = min(self._proven.get(phase, 0), halves[0].size)
        if self._kept:
            write_json(self._kept, self._largest)
        self._say(f"out of memory in {phase} with {piece.rows} rows at once: from now on {halves[0].rows} of such")
        return halves

    def _say(self, message: str) -> None:
        print(f"{self._who}: {message}", flush=True)


def out_of_memory(error: Exception) -> bool:
    """Whether `error` says that an allocation failed, on a GPU or a CPU."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error) for words in ALLOCATION_FAILED)


def release(device: torch.device) -> None:
    """Give back what a failed pass has left behind."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
