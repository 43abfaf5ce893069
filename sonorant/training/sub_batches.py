"""Split micro-batches by rows if they do not fit into memory.

Losses are sums, so the step differs only by rounding, except that dropout and the flow's noise are drawn per part. The
size of a part is the number of values in its tensors.
"""

import gc
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

from sonorant.errors import SonorantError
from sonorant.features.batches import Batch
from sonorant.files import read_json, write_json
from sonorant.training.recipe import Tensors

ALLOCATION_FAILED = (
    *("can't allocate memory", "could not create a primitive"),
    *("CUBLAS_STATUS_ALLOC_FAILED", "CUDNN_STATUS_ALLOC_FAILED"),
)
"""Texts in the out-of-memory errors (RuntimeError) of torch's CPU allocator, oneDNN and CUDA libraries."""
Part = tuple[int, Batch]
"""First row's position in the whole batch, and the rows."""


class SubBatches:
    """Maximum part size of this rank per phase, halved whenever memory runs out, and kept in a file."""

    def __init__(self, who: str, kept: Path | None = None) -> None:
        """`who` is this rank's name, for messages; `kept` is the file for the sizes, or None."""
        self._who, self._kept = who, kept
        self._largest: dict[str, int] = read_json(kept) if kept and kept.exists() else {}
        self._proven: dict[str, int] = {}
        """Largest size per phase that succeeded in this process."""
        self.averaging = False
        """Whether the part being computed has begun to average its gradients over the ranks, which cannot be undone."""
        if self._largest:
            self._say(
                f"memory ran out in an earlier run, so micro-batches are split; remove {kept} to try whole ones again"
            )

    def run(self, phase: str, batch: Batch, last: bool, compute: Callable[[Part, bool, float], Tensors]) -> Tensors:
        """Run `compute(part, averaged, weight)` on all parts of `batch`; return the sum of its losses.

        `compute` adds all gradients of its losses times `weight`, or none. They are averaged over the ranks only in the
        last part of a step's last micro-batch (`last`). Its backward pass cannot be repeated: if no part of its size
        has succeeded, it is computed without averaging, and a row with weight 0 then averages the sum.
        """
        waiting, done, losses = self._parts(phase, batch), list[Batch](), Tensors()
        averaged = False
        while waiting:
            first, rows = part = waiting.pop(0)
            averaged = last and not waiting and _size(rows) <= self._proven.get(phase, 0)
            tried, self.averaging = dict(rows), False
            try:
                found = compute((first, tried), averaged, 1.0)
            except (RuntimeError, MemoryError) as error:
                if not out_of_memory(error):
                    raise
                found = None
            if found is None:  # after the handler, whose traceback holds the tensors
                del tried
                release(next(iter(batch.values())).device)
                waiting = self._halves(phase, part) + waiting
                if self.averaging:
                    raise SonorantError(
                        f"{self._who}: out of memory while gradients were being averaged; run the same command again: "
                        "it resumes from the last checkpoint with half the size"
                    )
                averaged = False
                continue
            self.prove(phase, rows)
            done.append(tried)
            losses = {name: value + losses[name] if losses else value for name, value in found.items()}
        # A phase may add tensors for later phases.
        batch |= {key: torch.cat([rows[key] for rows in done]) for key in done[0].keys() - batch.keys()}
        if last and not averaged:
            compute(_cut((0, batch), 1)[0], True, 0.0)
        return losses

    def prove(self, phase: str, batch: Batch) -> None:
        self._proven[phase] = max(self._proven.get(phase, 0), _size(batch))

    def _parts(self, phase: str, batch: Batch) -> list[Part]:
        rows, size = _rows(batch), _size(batch)
        return _cut((0, batch), max(1, min(rows, self._largest.get(phase, size) * rows // size)))

    def _halves(self, phase: str, part: Part) -> list[Part]:
        """Split a part that did not fit into halves, whose size becomes the limit. Raises SonorantError for a single
        row."""
        rows = _rows(part[1])
        if rows == 1:
            raise SonorantError(
                f"{self._who}: out of memory in {phase} with a single row of {_size(part[1])} values: set "
                "activation_checkpointing: true, or use shorter utterances (prepare.max_seconds) or "
                "segments (segment_frames)"
            )
        halves = _cut(part, (rows + 1) // 2)
        self._largest[phase] = _size(halves[0][1])
        self._proven[phase] = min(self._proven.get(phase, 0), self._largest[phase])
        if self._kept:
            write_json(self._kept, self._largest)
        self._say(f"out of memory in {phase} with {rows} rows at a time; from now on {_rows(halves[0][1])}")
        return halves

    def _say(self, message: str) -> None:
        print(f"{self._who}: {message}", flush=True)


def _rows(batch: Batch) -> int:
    return len(next(iter(batch.values())))


def _size(batch: Batch) -> int:
    return sum(tensor.numel() for tensor in batch.values())


def _cut(part: Part, rows: int) -> list[Part]:
    first, batch = part
    starts = range(0, _rows(batch), rows)
    return [(first + at, {name: value[at : at + rows] for name, value in batch.items()}) for at in starts]


def add_gradients(module: nn.Module, loss: torch.Tensor) -> None:
    """Add the gradients of `loss`, either all or none, bypassing DistributedDataParallel."""
    parameters = list(module.parameters())
    gradients = torch.autograd.grad(loss, parameters)
    # Allocate everything before adding: if memory runs out here, the rows are repeated.
    sums = [torch.zeros_like(one) if one.grad is None else one.grad for one in parameters]
    for parameter, gradient, total in zip(parameters, gradients, sums, strict=True):
        parameter.grad = total.add_(gradient)


def out_of_memory(error: BaseException) -> bool:
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error) for words in ALLOCATION_FAILED)


def release(device: torch.device) -> None:
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
