"""Check GPUs, cores, memory, shared memory, and the address where several nodes meet."""

import os
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path

import torch

from sonorant.errors import SonorantError
from sonorant.extras.doctor.examination import Finding, not_run, ok, problem, warning
from sonorant.processes import usable_cores
from sonorant.training.distributed.launch import Node

AREA = "machine"
GIB = 2**30
SHM_WANTED = GIB
"""Bytes of /dev/shm for loader processes and NCCL; containers often have 64 MiB."""
MEMORY_WANTED = 2 * GIB


def examine(env: Mapping[str, str]) -> Iterator[Finding]:
    """Findings of this machine with the environment `env`."""
    gpus, cores = torch.cuda.device_count(), usable_cores()
    if not gpus:
        yield not_run(AREA, "GPUs", "torch sees none: ranks are CPU processes that talk over gloo")
    for index in range(gpus):
        yield check_gpu(index)
    yield check_cores(cores, cgroup_cores())
    yield check_threads(env, cores, gpus)
    yield check_memory(available_memory())
    yield check_shared_memory(shared_memory(), gpus)
    yield check_meeting(env)


def check_gpu(index: int) -> Finding:
    """Whether a GPU answers, and whether this build of torch has kernels for it."""
    name = f"cuda:{index}"
    try:
        properties = torch.cuda.get_device_properties(index)
        free, size = torch.cuda.mem_get_info(index)
    except RuntimeError as error:
        hint = "nvidia-smi shows whether another process uses it exclusively"
        return problem(AREA, name, f"does not answer: {str(error).splitlines()[0]}", hint)
    value = f"{properties.name}, {size / GIB:.0f} GiB, compute capability {properties.major}.{properties.minor}"
    supported = set(torch.cuda.get_arch_list())
    if not runs_on(properties.major, properties.minor, supported):
        return problem(
            AREA, name, f"{value}: torch has kernels for {' '.join(sorted(supported))}", "install another torch"
        )
    if free < 0.9 * size:
        hint = "nvidia-smi shows by whom; training uses what is free"
        return warning(AREA, name, f"{value}: {(size - free) / GIB:.1f} GiB are in use", hint)
    return ok(AREA, name, value)


def runs_on(major: int, minor: int, supported: set[str]) -> bool:
    """Whether an architecture of torch's build runs on a GPU: `sm_86` on its major from its minor on, `compute_86`
    (compiled at run time) on all newer GPUs too."""
    for arch in supported:
        kind, _, number = arch.partition("_")
        digits = number.rstrip("af")
        if digits.isdigit() and kind in ("sm", "compute"):
            built = divmod(int(digits), 10)
            if (major, minor) >= built and (kind == "compute" or major == built[0]):
                return True
    return False


def check_cores(usable: int, quota: float | None) -> Finding:
    """Cores of this process, and a container's quota of them."""
    if quota is not None and quota < usable - 0.5:
        settings = f"PET_NPROC_PER_NODE={max(1, int(quota))} OMP_NUM_THREADS=1"
        hint = f"threads beyond the quota are halted: set {settings}, or raise the quota"
        return warning(AREA, "cores", f"{usable} usable, but the container may use {quota:.1f} of them", hint)
    return ok(AREA, "cores", f"{usable}; {os.getloadavg()[0]:.1f} processes ran in the last minute")


def check_threads(env: Mapping[str, str], cores: int, gpus: int) -> Finding:
    """Whether the ranks' threads fit on the cores."""
    threads, ranks = env.get("OMP_NUM_THREADS"), env.get("PET_NPROC_PER_NODE", "")
    if threads is None:
        return ok(AREA, "threads", "OMP_NUM_THREADS is not set: the launcher divides the cores")
    if not threads.isdigit() or int(threads) == 0:
        return problem(AREA, "threads", f"OMP_NUM_THREADS={threads} is no number of threads", "unset OMP_NUM_THREADS")
    processes = int(ranks) if ranks.isdigit() else max(1, gpus)
    value = f"OMP_NUM_THREADS={threads} for each of {processes} ranks, {cores} cores"
    if int(threads) * processes > cores:
        hint = f"unset OMP_NUM_THREADS, or set it to {max(1, cores // processes)}"
        return warning(AREA, "threads", value, hint)
    return ok(AREA, "threads", value)


def check_memory(available: int | None) -> Finding:
    """Whether ranks find memory; `available` in bytes."""
    if available is None:
        return not_run(AREA, "memory", "this system has no /proc/meminfo")
    value = f"{available / GIB:.1f} GiB available"
    if available < MEMORY_WANTED:
        return warning(AREA, "memory", value, "a rank needs about 1 GiB: end other programs or start fewer ranks")
    return ok(AREA, "memory", value)


def check_shared_memory(size: int | None, gpus: int) -> Finding:
    """Whether /dev/shm (`size` in bytes) is large enough; several GPUs need it."""
    if size is None:
        return not_run(AREA, "/dev/shm", "this system has none")
    if size >= SHM_WANTED:
        return ok(AREA, "/dev/shm", f"{size / GIB:.1f} GiB")
    how = "docker run --shm-size=8g; on Kubernetes an emptyDir of medium Memory at /dev/shm"
    hint = f"loader processes and NCCL need 1 GiB: {how}"
    return (problem if gpus > 1 else warning)(AREA, "/dev/shm", f"{size / 2**20:.0f} MiB", hint)


def check_meeting(env: Mapping[str, str]) -> Finding:
    """Whether `PET_*` describe this node, and the first node has an address."""
    try:
        node = Node.of(env)
    except SonorantError as error:
        return problem(AREA, "rendezvous", f"PET_* variables: {error}", "set them as docs/training.md says")
    if node.count == 1:
        return ok(AREA, "rendezvous", "one node (PET_NNODES is not set above 1)")
    try:
        address = socket.gethostbyname(node.host)
    except OSError:
        return problem(
            AREA, "rendezvous", f"{node.host} has no address", "use a name of the first node that resolves here"
        )
    return ok(AREA, "rendezvous", f"node {node.rank} of {node.count}; the first is {node.host} ({address})")


def cgroup_cores(root: Path = Path("/sys/fs/cgroup")) -> float | None:
    """Cores that the container's quota allows (cgroup v2); None = no quota."""
    try:
        quota, period = (root / "cpu.max").read_text().split()
    except (OSError, ValueError):
        return None
    return None if quota == "max" else int(quota) / int(period)


def available_memory(meminfo: Path = Path("/proc/meminfo"), limits: Path = Path("/sys/fs/cgroup")) -> int | None:
    """Bytes for new processes: the machine's, or the rest of the container's limit."""
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
    """Bytes of the file system of shared memory."""
    try:
        found = os.statvfs(folder)
    except OSError:
        return None
    return found.f_blocks * found.f_frsize
