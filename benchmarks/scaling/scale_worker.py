"""Measures one step of `benchmarks scale` in a separate process: python -m benchmarks.scaling.scale_worker STEP.
The step's inputs are made before the measurement."""

import gc
import os
import resource
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.processes import answer, memory_mib
from benchmarks.scaling.scale_files import ON_FILES
from benchmarks.scaling.scale_rows import ON_ROWS, Work

LONG_ENOUGH = 5.0
"""CPU seconds above which a step is not measured again."""
REPEATED = 3


@dataclass(frozen=True, kw_only=True)
class Job:
    utterances: int
    folder: str
    """Folder through which the steps of this size exchange data."""


def measured(prepare_step: Callable[[Path, int], Work], job: Job) -> dict[str, float | None]:
    """CPU seconds of this process and its children, peak bytes of memory and files left by the result of
    `prepare_step`. CPU time is the minimum of up to `REPEATED` runs; memory (None if the system does not report
    it) and files are from the first."""
    folder = Path(job.folder)
    folder.mkdir(parents=True, exist_ok=True)
    work = prepare_step(folder, job.utterances)
    gc.collect()
    _leave_to_the_disk(folder)
    files, before = _files(folder), _forget_peak()
    spent = [_spent(work)]
    peak = memory_mib("VmHWM")
    memory = None if before is None or peak is None else max(0.0, peak - before) * 2**20
    left = _files(folder) - files
    while sum(spent) < LONG_ENOUGH and len(spent) < REPEATED:
        _leave_to_the_disk(folder)
        spent.append(_spent(work))
    return {"cpu_seconds": min(spent), "bytes": memory, "files": left}


def _spent(work: Work) -> float:
    before = _cpu()
    work()
    return _cpu() - before


def _cpu() -> float:
    """CPU seconds of this process and its finished children."""
    spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in spent)


def _leave_to_the_disk(folder: Path) -> None:
    """Drop files from the page cache where possible: most files of a large corpus are not in memory."""
    if not hasattr(os, "posix_fadvise"):
        return
    os.sync()
    for place, _, names in os.walk(folder):
        for name in names:
            opened = os.open(Path(place) / name, os.O_RDONLY)
            os.posix_fadvise(opened, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(opened)


def _forget_peak() -> float | None:
    """Reset the peak memory; return this process's current MiB."""
    forget = Path("/proc/self/clear_refs")
    if not os.access(forget, os.W_OK):
        return None
    forget.write_text("5")
    return memory_mib("VmRSS")


def _files(folder: Path) -> int:
    return sum(len(names) for _, _, names in os.walk(folder))


def main() -> None:
    steps = {**ON_ROWS, **ON_FILES}
    answer(Job, {name: lambda job, step=step: measured(step, job) for name, step in steps.items()})  # type: ignore[misc]


if __name__ == "__main__":
    main()
