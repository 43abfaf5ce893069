"""Split a micro-batch that does not fit into memory into sub-batches of rows.

Losses are sums, so the step stays equal to rounding, except that dropout and the flow's noise are drawn per sub-batch.
A sub-batch's size is the number of values in its tensors.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from sonorant.errors import SonorantError
from sonorant.features.batches import Batch
from sonorant.files import read_json, write_json
from sonorant.training.recipe import Phase, Tensors
from sonorant.training.telemetry.stopwatch import Stopwatch

ALLOCATION_FAILED = (
    *("can't allocate memory", "could not create a primitive"),
    *("CUBLAS_STATUS_ALLOC_FAILED", "CUDNN_STATUS_ALLOC_FAILED"),
)
"""In RuntimeErrors of torch's CPU allocator, oneDNN and CUDA's libraries."""


@dataclass(frozen=True)
class SubBatch:
    """Rows of a batch computed in one pass."""

    first: int
    """Position of its first row in the batch."""
    batch: Batch

    @property
    def rows(self) -> int:
        return len(next(iter(self.batch.values())))

    @property
    def size(self) -> int:
        return sum(tensor.numel() for tensor in self.batch.values())

    def cut(self, rows: int) -> list[SubBatch]:
        return [
            SubBatch(self.first + start, {name: tensor[start : start + rows] for name, tensor in self.batch.items()})
            for start in range(0, self.rows, rows)
        ]


class SubBatches:
    """Largest sub-batch of this rank per phase, halved whenever memory runs out, and kept in a file."""

    def __init__(self, who: str, kept: Path | None = None) -> None:
        """`who`: this rank, for messages; `kept`: file, None = not kept."""
        self._who, self._kept = who, kept
        self._largest: dict[str, int] = read_json(kept) if kept and kept.exists() else {}
        self._proven: dict[str, int] = {}
        if self._largest:
            before = "memory ran out here before, so micro-batches are taken in sub_batches"
            self._say(f"{before}; remove {kept} to try them whole again")

    def of(self, phase: str, batch: Batch) -> list[SubBatch]:
        """Sub-batches of the batch that fit, of at least one row."""
        whole = SubBatch(0, batch)
        largest = self._largest.get(phase, whole.size)
        return whole.cut(max(1, min(whole.rows, largest * whole.rows // whole.size)))

    def proven(self, phase: str, sub_batch: SubBatch) -> bool:
        """Whether a sub-batch of this size has succeeded in this process."""
        return sub_batch.size <= self._proven.get(phase, 0)

    def prove(self, phase: str, sub_batch: SubBatch) -> None:
        self._proven[phase] = max(self._proven.get(phase, 0), sub_batch.size)

    def halve(self, phase: str, sub_batch: SubBatch) -> list[SubBatch]:
        """Halves of a sub-batch that did not fit, the new limit. Raises SonorantError for a single row."""
        if sub_batch.rows == 1:
            raise SonorantError(
                f"{self._who}: out of memory in {phase} with a single row of {sub_batch.size} values: set "
                "activation_checkpointing: true, or shorten what is trained on (prepare.max_seconds, "
                "train_vocoder.segment_frames)"
            )
        halves = sub_batch.cut((sub_batch.rows + 1) // 2)
        self._largest[phase] = halves[0].size
        self._proven[phase] = min(self._proven.get(phase, 0), halves[0].size)
        if self._kept:
            write_json(self._kept, self._largest)
        self._say(f"out of memory in {phase} with {sub_batch.rows} rows at once: from now on {halves[0].rows} of such")
        return halves

    def refuse_repetition(self, phase: str, sub_batch: SubBatch) -> SonorantError:
        """Error for memory that ran out while gradients were averaged; the next start uses half the size."""
        self.halve(phase, sub_batch)
        return SonorantError(
            f"{self._who}: out of memory while gradients were being averaged, which cannot be taken back; "
            "the same command resumes from the last checkpoint with sub_batches of half the size"
        )

    def _say(self, message: str) -> None:
        print(f"{self._who}: {message}", flush=True)


class Passes:
    """Passes of a micro-batch through one phase: one, or several where memory demands it.

        for part in passes:
            with part:  # a part that runs out of memory is repeated in halves
                part.forward(step)
                part.backward(loss)

    DistributedDataParallel (`wrapped`) runs once a step, in the last pass of the last micro-batch. This pass cannot be
    repeated: one of unproven size runs locally, and a pass of weight 0 over a single row then averages the sum.
    """

    def __init__(
        self, kept: SubBatches, phase: Phase, wrapped: nn.Module, batch: Batch, last: bool, stopwatch: Stopwatch
    ) -> None:
        """`last`: the step's last micro-batch on this rank."""
        self.kept, self.phase, self.wrapped, self.batch, self.last = kept, phase, wrapped, batch, last
        self.stopwatch = stopwatch
        self.losses: Tensors = {}
        """Summed over the passes, detached."""

    def __iter__(self) -> Iterator[Part]:
        name, waiting, done = self.phase.name, self.kept.of(self.phase.name, self.batch), []
        averaged = False
        while waiting:
            sub_batch = waiting.pop(0)
            averaged = self.last and not waiting and self.kept.proven(name, sub_batch)
            part = Part(self, sub_batch, averaged, 1.0)
            yield part
            if part.failed:
                release(next(iter(self.batch.values())).device)
                waiting = [*self.kept.halve(name, sub_batch), *waiting]
                continue
            self.kept.prove(name, sub_batch)
            done.append(part.batch)
            for key, value in part.losses.items():
                self.losses[key] = value + self.losses[key] if key in self.losses else value
        # A phase may add tensors for later ones.
        self.batch |= {key: torch.cat([batch[key] for batch in done]) for key in done[0].keys() - self.batch.keys()}
        if self.last and not averaged:
            yield Part(self, SubBatch(0, self.batch).cut(1)[0], True, 0.0)


class Part:
    """One pass over a sub-batch; a context that catches running out of memory and sets `failed`."""

    def __init__(self, passes: Passes, sub_batch: SubBatch, averaged: bool, weight: float) -> None:
        self._passes, self._sub_batch, self._averaged = passes, sub_batch, averaged
        self._module = passes.wrapped if averaged else passes.phase.module
        self._irrevocable = False
        self.first, self.batch = sub_batch.first, dict(sub_batch.batch)
        self.weight = weight
        """Of its losses: 1, or 0 for an averaging pass."""
        self.losses: Tensors = {}
        """Summed losses by name; only kept here, so that a failed pass frees its memory."""
        self.failed = False

    def __enter__(self) -> Part:
        return self

    def forward(self, step: int) -> None:
        with self._passes.stopwatch("forward"):
            self.losses = self._module(self.batch, step)

    def backward(self, loss: torch.Tensor) -> None:
        """Add the gradients of `loss`, atomically; averaged over the ranks in the last pass."""
        with self._passes.stopwatch("backward"):
            if self._averaged:
                self._irrevocable = True
                loss.backward()
            else:
                add_gradients(self._passes.phase.module, loss)

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> bool:
        self.failed = error is not None
        self.losses = {} if error else {name: value.detach() for name, value in self.losses.items()}
        if error is None or not out_of_memory(error):
            return False
        if self._irrevocable:
            raise self._passes.kept.refuse_repetition(self._passes.phase.name, self._sub_batch) from None
        return True


def add_gradients(module: nn.Module, loss: torch.Tensor) -> None:
    """`loss.backward()` that adds all gradients or none, without DistributedDataParallel."""
    parameters = list(module.parameters())
    gradients = torch.autograd.grad(loss, parameters)
    # Allocate everything before adding: memory may run out here, and the rows are repeated.
    sums = [torch.zeros_like(one) if one.grad is None else one.grad for one in parameters]
    for parameter, gradient, total in zip(parameters, gradients, sums, strict=True):
        parameter.grad = total.add_(gradient)


def out_of_memory(error: BaseException) -> bool:
    """Whether an allocation failed, on a GPU or a CPU."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error) for words in ALLOCATION_FAILED)


def release(device: torch.device) -> None:
    """Free the memory of a failed pass."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
