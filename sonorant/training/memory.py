"""Measure the memory of a device, and find the largest micro-batch that fits.

Memory is torch's reserved memory on a GPU, and resident memory on a CPU. One part is fixed and one proportional to the
budget, so scaling the budget by `allowed / taken` converges from below. If a GPU's allocator takes more, the search
bisects.
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
"""Minimum number of steps per epoch; a budget that fits into memory may be too large to learn well."""
CLOSE_ENOUGH = 1.1
"""Growth factor of the budget below which the search ends."""
FASTEST_GROWTH = 4.0
"""Maximum growth factor of the budget per trial; the first trials are too small to predict memory well."""


def peak(device: torch.device) -> int:
    """Return the peak memory in bytes since process start or `forget_peak`."""
    if device.type == "cuda":
        return torch.cuda.max_memory_reserved(device)
    rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return _kib("/proc/self/status", "VmHWM") or rss


def forget_peak(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
    else:
        with suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")  # proc(5): resets VmHWM


def allowance(device: torch.device, share: float) -> int:
    """Return the bytes that this process may use."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return int(share * (free + torch.cuda.memory_reserved(device)))
    held = _kib("/proc/self/status", "VmRSS") or peak(device)
    return int(share * (held + part_of_free()))


def part_of_free() -> int:
    """Return this process's part of the free main memory in bytes."""
    return _free() // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))


def _free() -> int:
    free = _kib("/proc/meminfo", "MemAvailable") or os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    limit, used, statistics = (_text(CGROUP / f"memory.{name}") for name in ("max", "current", "stat"))
    if limit.strip().isdigit() and used:
        cached = sum(map(int, re.findall(r"^(?:in)?active_file (\d+)$", statistics, flags=re.MULTILINE)))
        free = min(free, max(0, int(limit) - int(used) + cached))
    return free


def _kib(path: str, name: str) -> int | None:
    found = re.search(rf"^{name}:\s+(\d+) kB", _text(Path(path)), flags=re.MULTILINE)
    return int(found[1]) * 1024 if found else None


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def find_budget(trained: TrainStep, share: float) -> int:
    """Set and return the recipe's largest budget that fits into `share` of the free memory on every rank.

    A collective call; changes no weights and no random state. Raises AllRanksError if the smallest budget does not fit.
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
    """Return the bytes the first optimizer step adds: gradients (twice while added) and AdamW's averages."""
    return sum(4 * parameter.nbytes for phase in trained.recipe.phases for parameter in phase.module.parameters())


def _peak_of(trained: TrainStep, budget: int) -> int | None:
    """Return the peak bytes of the heaviest micro-batches of size `budget`, or None if they do not fit."""
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
