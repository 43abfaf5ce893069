"""How much memory this process has taken of its device at most, and how much it may take. Knows nothing of what is kept
in it.

On a GPU this is what torch's allocator has reserved; on a CPU the process's resident memory, of which each process of
the node may take an equal part.

How much a micro-batch may hold, found by running the heaviest ones. Knows nothing of what a budget counts: the recipe
does.

Memory is a fixed part and one in proportion to the budget, so a budget multiplied by `allowed / taken` never takes more
than is allowed and comes close after a few trials: nothing larger than what fits is ever run.

Micro-batches in sub_batches, where this rank's memory does not hold them whole. Knows nothing of losses, models or
other ranks.

Losses are sums, so a micro-batch may be computed sub_batch by sub_batch, each some of its rows, without changing the
step: equal to rounding, except that dropout and a flow's noise are drawn per sub_batch. A sub_batch is measured in the
values of its tensors."""

from __future__ import annotations

import gc
import os
import re
import resource
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from sonorant.data.batches import Batch
from sonorant.errors import SonorantError
from sonorant.files import read_json, write_json
from sonorant.training.distributed.ranks import AllRanksError

if TYPE_CHECKING:
    from sonorant.training.step import TrainStep

CGROUP = Path("/sys/fs/cgroup")


def peak(device: torch.device) -> int:
    """Bytes held at most since the process started, or since `forget_peak`."""
    if device.type == "cuda":
        return torch.cuda.max_memory_reserved(device)
    found = _kib("/proc/self/status", "VmHWM")
    if found is not None:
        return found
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def forget_peak(device: torch.device) -> None:
    """Give back what is not used and count anew. On a CPU the peak stays: the memory of a process seldom shrinks."""
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)


def allowance(device: torch.device, share: float) -> int:
    """Bytes this process may hold: `share` of what it holds already and its part of what is free."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return int(share * (free + torch.cuda.memory_reserved(device)))
    held = _kib("/proc/self/status", "VmRSS") or peak(device)
    return int(share * (held + part_of_free()))


def part_of_free() -> int:
    """Bytes of main memory that this process may still take, where each process of the node takes as many."""
    return _free() // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))


def _free() -> int:
    """Bytes that processes on this machine, or in this container, can still take."""
    available = _kib("/proc/meminfo", "MemAvailable")
    free = available if available is not None else os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    limit, used = CGROUP / "memory.max", CGROUP / "memory.current"
    if limit.exists() and used.exists() and limit.read_text().strip().isdigit():
        free = min(free, max(0, int(limit.read_text()) - int(used.read_text()) + _cached()))
    return free


def _cached() -> int:
    """Bytes counted as used by the container that only cache files, such as features that were just read to be
    hashed."""
    statistics = CGROUP / "memory.stat"
    text = statistics.read_text() if statistics.exists() else ""
    return sum(int(size) for size in re.findall(r"^(?:in)?active_file (\d+)$", text, flags=re.MULTILINE))


def _kib(path: str, name: str) -> int | None:
    if not Path(path).exists():
        return None
    found = re.search(rf"^{name}:\s+(\d+) kB", Path(path).read_text(), flags=re.MULTILINE)
    return int(found[1]) * 1024 if found else None


STEPS_AN_EPOCH = 50
"""A budget found is never so large that an epoch has fewer steps: what fits into memory may be too much to learn
from."""


CLOSE_ENOUGH = 1.1
"""A larger budget is tried while it is larger by this factor."""


FASTEST_GROWTH = 4.0
"""From one trial to the next: the first ones, of a few frames, say little."""


def find_budget(trained: TrainStep, share: float) -> int:
    """The largest budget whose heaviest micro-batches stay within `share` of the memory that is free on every rank.

    Sets the recipe's budget to it. Bounded so that an epoch has `STEPS_AN_EPOCH` steps. Changes no weights and draws no
    numbers that training would. Every rank must ask. Raises AllRanksError where not even the smallest budget fits.
    """
    recipe, ranks = trained.recipe, trained.ranks
    smallest, largest = recipe.budget_range(STEPS_AN_EPOCH)
    allowed = allowance(ranks.device, share) - _yet_to_come(trained)
    found, trial = 0, smallest
    while trial <= largest:
        taken = _peak_of(trained, trial)
        if taken is None or taken > allowed:
            break
        found = trial
        trial = min(largest, int(trial * min(allowed / taken, FASTEST_GROWTH)))
        if trial < found * CLOSE_ENOUGH and not (trial == largest > found):
            break
    recipe.budget, allowed, name = min(ranks.gather((found, allowed, ranks.name)))
    if not recipe.budget:
        raise AllRanksError(
            f"{name}: the heaviest micro-batch of the smallest budget ({smallest}) does not fit into "
            f"{max(0, allowed) / 2**30:.1f} GiB: free memory, raise machine.memory_share, or set activation_checkpointing: true"
        )
    return recipe.budget


def _yet_to_come(trained: TrainStep) -> int:
    """Bytes that the first optimizer step will take besides: gradients, twice where they are added, and AdamW's two
    averages."""
    return sum(4 * parameter.nbytes for phase in trained.recipe.phases for parameter in phase.module.parameters())


def _peak_of(trained: TrainStep, budget: int) -> int | None:
    """Bytes held at most while the heaviest micro-batches of `budget` go forward and backward; None where they do not
    fit."""
    recipe, device = trained.recipe, trained.ranks.device
    recipe.budget = budget
    forget_peak(device)
    batches = recipe.dataset(recipe.heaviest())
    try:
        for index in range(len(batches)):  # type: ignore[arg-type]
            batch: Batch = {name: value.to(device) for name, value in batches[index].items()}
            trained.dry_run(batch)
    except (RuntimeError, MemoryError) as error:
        if not out_of_memory(error):
            raise
        release(device)
        return None
    return peak(device)


ALLOCATION_FAILED = ("can't allocate memory", "CUBLAS_STATUS_ALLOC_FAILED", "CUDNN_STATUS_ALLOC_FAILED")
"""How RuntimeErrors of torch's CPU allocator and of CUDA's libraries say it."""


@dataclass(frozen=True)
class SubBatch:
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

    def cut(self, rows: int) -> list[SubBatch]:
        """The same in sub_batches of at most `rows` rows."""
        return [
            SubBatch(self.first + start, {name: tensor[start : start + rows] for name, tensor in self.batch.items()})
            for start in range(0, self.rows, rows)
        ]


class SubBatches:
    """The largest sub_batch this rank takes in each phase: halved when memory runs out, and kept in a file for this
    machine's next start."""

    def __init__(self, who: str, kept: Path | None = None) -> None:
        """`who` is this rank for a person; without a file `kept`, nothing outlasts the process."""
        self._who, self._kept = who, kept
        self._largest: dict[str, int] = read_json(kept) if kept and kept.exists() else {}
        self._proven: dict[str, int] = {}
        if self._largest:
            self._say(
                f"memory ran out here before, so micro-batches are taken in sub_batches; remove {kept} to try them whole again"
            )

    def of(self, phase: str, batch: Batch) -> list[SubBatch]:
        """The batch in sub_batches that are not too large; a single row is one however large it is."""
        whole = SubBatch(0, batch)
        largest = self._largest.get(phase, whole.size)
        return whole.cut(max(1, min(whole.rows, largest * whole.rows // whole.size)))

    def proven(self, phase: str, sub_batch: SubBatch) -> bool:
        """Whether this process has brought a sub_batch as large through forward and backward."""
        return sub_batch.size <= self._proven.get(phase, 0)

    def prove(self, phase: str, sub_batch: SubBatch) -> None:
        """It has brought this one through."""
        self._proven[phase] = max(self._proven.get(phase, 0), sub_batch.size)

    def halve(self, phase: str, sub_batch: SubBatch) -> list[SubBatch]:
        """The halves of a sub_batch for which memory did not suffice; nothing larger is taken from now on.

        Raises SonorantError where it is a single row.
        """
        if sub_batch.rows == 1:
            raise SonorantError(
                f"{self._who}: out of memory in {phase} with a single row of {sub_batch.size} values: set activation_checkpointing: "
                "true, or shorten what is trained on (prepare.max_seconds, train_vocoder.segment_frames)"
            )
        halves = sub_batch.cut((sub_batch.rows + 1) // 2)
        self._largest[phase] = halves[0].size
        self._proven[phase] = min(self._proven.get(phase, 0), halves[0].size)
        if self._kept:
            write_json(self._kept, self._largest)
        self._say(f"out of memory in {phase} with {sub_batch.rows} rows at once: from now on {halves[0].rows} of such")
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
