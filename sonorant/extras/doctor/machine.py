"""Check this machine's cores, memory, limits, clock and locale."""

import ctypes
import os
import resource
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from sonorant.extras.doctor.examination import Finding, not_run, ok, problem, warning
from sonorant.processes import usable_cores

AREA = "machine"

GIB = 2**30
SHM_WANTED = GIB
"""Bytes of /dev/shm for loader processes and NCCL; containers often have 64 MiB."""
FILES_WANTED = 1024
MEMORY_WANTED = 2 * GIB


def examine(env: Mapping[str, str], gpus: int) -> Iterator[Finding]:
    """Findings of this machine with the environment `env`; `gpus` is the number that torch sees."""
    cores = usable_cores()
    yield check_cores(cores, os.cpu_count() or cores, cgroup_cores(), env)
    yield check_threads(env, cores, gpus)
    yield check_load(os.getloadavg()[0], cores)
    yield check_memory(available_memory())
    yield check_shared_memory(shared_memory(), gpus)
    yield check_open_files(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    yield check_clock(clock_is_synchronised())
    yield check_locale(sys.getfilesystemencoding())


def check_cores(usable: int, all_of_them: int, quota: float | None, env: Mapping[str, str]) -> Finding:
    """The cores this process may run on, and a container's share of them."""
    if quota is not None and quota < usable - 0.5:
        value = f"{usable} usable, but the container may use {quota:.1f} of them"
        settings = f"PET_NPROC_PER_NODE={max(1, int(quota))} OMP_NUM_THREADS=1"
        return warning(AREA, "cores", value, f"threads beyond it are halted: set {settings}, or raise the quota")
    bound = usable < all_of_them and "SLURM_JOB_ID" not in env
    return ok(AREA, "cores", f"{usable}" + (f" of {all_of_them} usable by this process's affinity" if bound else ""))


def check_threads(env: Mapping[str, str], cores: int, gpus: int) -> Finding:
    """Whether the ranks' threads fit on the cores."""
    threads, ranks = env.get("OMP_NUM_THREADS"), env.get("PET_NPROC_PER_NODE", "")
    if threads is None:
        return ok(AREA, "threads", "OMP_NUM_THREADS is not set: the launcher divides the cores")
    if not threads.isdigit() or int(threads) == 0:
        value = f"OMP_NUM_THREADS={threads} is not a number of threads"
        return problem(AREA, "threads", value, "unset OMP_NUM_THREADS")
    processes = int(ranks) if ranks.isdigit() else max(1, gpus)
    value = f"OMP_NUM_THREADS={threads} for each of {processes} ranks, {cores} cores"
    if int(threads) * processes > cores:
        hint = f"unset OMP_NUM_THREADS, or set it to {max(1, cores // processes)}"
        return warning(AREA, "threads", value, f"more threads than cores wait for each other: {hint}")
    return ok(AREA, "threads", value)


def check_load(load: float, cores: int) -> Finding:
    """Whether other work uses the cores."""
    value = f"{load:.1f} processes running on {cores} cores in the last minute"
    if load > 1.25 * cores:
        return warning(AREA, "load", value, "other work is running here and slows training: end or move it")
    return ok(AREA, "load", value)


def check_memory(available: int | None) -> Finding:
    if available is None:
        return not_run(AREA, "memory", "this system has no /proc/meminfo")
    value = f"{available / GIB:.1f} GiB available"
    if available < MEMORY_WANTED:
        hint = "a rank needs about 1 GiB, one on a GPU more: end other programs or start fewer ranks"
        return warning(AREA, "memory", value, hint)
    return ok(AREA, "memory", value)


def check_shared_memory(size: int | None, gpus: int) -> Finding:
    """Whether /dev/shm (`size` in bytes) is large enough; several GPUs cannot do without."""
    if size is None:
        return not_run(AREA, "/dev/shm", "this system has none")
    if size >= SHM_WANTED:
        return ok(AREA, "/dev/shm", f"{size / GIB:.1f} GiB")
    how = "docker run --shm-size=8g; on Kubernetes an emptyDir of medium Memory at /dev/shm"
    hint = f"loader processes and NCCL need 1 GiB: {how}"
    return (problem if gpus > 1 else warning)(AREA, "/dev/shm", f"{size / 2**20:.0f} MiB", hint)


def check_open_files(limit: int) -> Finding:
    value = "unlimited" if limit == resource.RLIM_INFINITY else str(limit)
    if limit != resource.RLIM_INFINITY and limit < FILES_WANTED:
        return warning(AREA, "open files", value, f"loader processes hold many files: ulimit -n {4 * FILES_WANTED}")
    return ok(AREA, "open files", value)


def check_clock(synchronised: bool | None) -> Finding:
    """Whether the kernel's clock is synchronised."""
    if synchronised is None:
        return not_run(AREA, "clock", "this system does not tell")
    if not synchronised:
        hint = "curves and logs of several nodes would not line up: run a time service (chrony, systemd-timesyncd)"
        return warning(AREA, "clock", "not synchronised", hint)
    return ok(AREA, "clock", "synchronised")


def check_locale(encoding: str) -> Finding:
    """Whether file names and output are UTF-8."""
    if encoding.lower().replace("-", "") != "utf8":
        hint = "texts and names of recordings are UTF-8: export LC_ALL=C.UTF-8"
        return problem(AREA, "locale", f"file names are {encoding}", hint)
    return ok(AREA, "locale", "UTF-8")


def cgroup_cores(root: Path = Path("/sys/fs/cgroup")) -> float | None:
    """Cores that the container's quota allows (cgroup v2, then v1); None for no quota."""
    try:
        quota, period = (root / "cpu.max").read_text().split()
    except (OSError, ValueError):
        try:
            quota = (root / "cpu/cpu.cfs_quota_us").read_text().strip()
            period = (root / "cpu/cpu.cfs_period_us").read_text().strip()
        except OSError:
            return None
    return None if quota in ("max", "-1") else int(quota) / int(period)


def available_memory(meminfo: Path = Path("/proc/meminfo"), limits: Path = Path("/sys/fs/cgroup")) -> int | None:
    """Bytes that new processes may take: the machine's, or the rest of the container's limit."""
    try:
        fields = dict(line.split(":", 1) for line in meminfo.read_text().splitlines())
        available = int(fields["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return None
    try:
        return min(available, int((limits / "memory.max").read_text()) - int((limits / "memory.current").read_text()))
    except (OSError, ValueError):  # no container, or no limit ("max")
        return available


def shared_memory(folder: Path = Path("/dev/shm")) -> int | None:
    """Bytes of the shared memory's file system."""
    try:
        of = os.statvfs(folder)
    except OSError:
        return None
    return of.f_blocks * of.f_frsize


def clock_is_synchronised() -> bool | None:
    """Ask the Linux kernel (adjtimex, changing nothing): 5 is TIME_ERROR, clock not synchronised."""
    if sys.platform != "linux":
        return None
    state = ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(512))  # struct timex, all zero: modes 0 only reads
    return None if state < 0 else state != 5
