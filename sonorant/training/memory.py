"""How much memory this process has taken of its device at most, and how much it may take. Knows nothing of what is kept in it.

On a GPU this is what torch's allocator has reserved; on a CPU the process's resident memory, of which each process of the node may take
an equal part.
"""

from __future__ import annotations

import os
import re
import resource
import sys
from pathlib import Path

import torch

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
    """Bytes counted as used by the container that only cache files, such as features that were just read to be hashed."""
    statistics = CGROUP / "memory.stat"
    text = statistics.read_text() if statistics.exists() else ""
    return sum(int(size) for size in re.findall(r"^(?:in)?active_file (\d+)$", text, flags=re.MULTILINE))


def _kib(path: str, name: str) -> int | None:
    if not Path(path).exists():
        return None
    found = re.search(rf"^{name}:\s+(\d+) kB", Path(path).read_text(), flags=re.MULTILINE)
    return int(found[1]) * 1024 if found else None
