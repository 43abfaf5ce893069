"""The memory a training may take of its device, and the largest micro-batch that fits into it.

On a GPU, memory is what torch's allocator has reserved; on a CPU, the process's resident memory, of which each process
of the node may take an equal share.

A budget is found by running the heaviest micro-batches. Memory is a fixed part plus one in proportion to the budget, so
a budget multiplied by `allowed / taken` takes no more than is allowed and comes close after a few trials. A GPU's
allocator holds more than that at some sizes: after a trial that took too much, one in the middle is run.
"""

import os
import re
import resource
import sys
from contextlib import suppress
from pathlib import Path

import torch

from sonorant.features.batches import Batch
from sonorant.training.distributed.ranks import AllRanksError
from sonorant.training.step import TrainStep
from sonorant.training.sub_batches import out_of_memory, release

CGROUP = Path("/sys/fs/cgroup")
STEPS_AN_EPOCH = 50
"""An epoch keeps at least as many steps: a budget that fits into memory may be too large to learn well with."""
CLOSE_ENOUGH = 1.1
"""A larger budget is tried while it is larger by this factor."""
FASTEST_GROWTH = 4.0
"""From one trial to the next: the first trials, of a few frames, say little."""


def peak(device: torch.device) -> int:
    """Bytes held at most since the process started, or since `forget_peak`."""
    if device.type == "cuda":
        return torch.cuda.max_memory_reserved(device)
    found = _kib("/proc/self/status", "VmHWM")
    if found is not None:
        return found
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def forget_peak(device: torch.device) -> None:
    """Free what is unused and count anew; where a system does not allow that of main memory, the peak stays."""
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
    else:
        with suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")  # proc(5): VmHWM begins anew


def allowance(device: torch.device, share: float) -> int:
    """Bytes this process may hold: `share` of what it holds already plus its part of what is free."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return int(share * (free + torch.cuda.memory_reserved(device)))
    held = _kib("/proc/self/status", "VmRSS") or peak(device)
    return int(share * (held + part_of_free()))


def part_of_free() -> int:
    """Bytes of main memory that each process of this node may still take."""
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
    """Bytes that the container counts as used but that only cache files, such as features just hashed."""
    statistics = CGROUP / "memory.stat"
    text = statistics.read_text() if statistics.exists() else ""
    return sum(int(size) for size in re.findall(r"^(?:in)?active_file (\d+)$", text, flags=re.MULTILINE))


def _kib(path: str, name: str) -> int | None:
    if not Path(path).exists():
        return None
    found = re.search(rf"^{name}:\s+(\d+) kB", Path(path).read_text(), flags=re.MULTILINE)
    return int(found[1]) * 1024 if found else None


def find_budget(trained: TrainStep, share: float) -> int:
    """Set the recipe's budget to the largest that fits into `share` of the free memory on every rank; return it.

    An epoch keeps `STEPS_AN_EPOCH` steps. Changes no weights and draws no numbers that training would. Every rank must
    call it. Raises AllRanksError where not even the smallest budget fits.
    """
    recipe, ranks = trained.recipe, trained.ranks
    smallest, largest = recipe.budget_range(STEPS_AN_EPOCH)
    allowed = allowance(ranks.device, share) - _yet_to_come(trained)
    found, too_large, trial = 0, largest + 1, smallest
    while True:
        taken = _peak_of(trained, trial)
        if taken is not None and taken <= allowed:
            found, grown = trial, int(trial * min(allowed / taken, FASTEST_GROWTH))
        elif found:
            too_large = trial
        else:
            break
        trial = min(largest, grown) if too_large > largest else int((found * too_large) ** 0.5)
        if trial < found * CLOSE_ENOUGH and not (trial == largest > found):
            break
    recipe.budget, allowed, name = min(ranks.gather((found, allowed, ranks.name)))
    if not recipe.budget:
        raise AllRanksError(
            f"{name}: the heaviest micro-batch of the smallest budget ({smallest}) does not fit into "
            f"{max(0, allowed) / 2**30:.1f} GiB: free memory, raise machine.memory_share, or set "
            "activation_checkpointing: true"
        )
    return recipe.budget


def _yet_to_come(trained: TrainStep) -> int:
    """Bytes that the first optimizer step takes besides: gradients (twice while added) and AdamW's two averages."""
    return sum(4 * parameter.nbytes for phase in trained.recipe.phases for parameter in phase.module.parameters())


def _peak_of(trained: TrainStep, budget: int) -> int | None:
    """Most bytes held while the heaviest micro-batches of `budget` go forward and backward; None if they do not fit."""
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
