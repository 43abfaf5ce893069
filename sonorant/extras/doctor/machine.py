"""Check GPUs, cores, memory, shared memory, and the address where several nodes meet."""

import os
import shutil
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path

import torch

from sonorant.errors import SonorantError
from sonorant.extras.doctor.finding import Finding, not_run, ok, problem, warning
from sonorant.processes import usable_cores
from sonorant.training.distributed.launch import Node
from sonorant.training.memory import CGROUP, part_of_free

GIB = 2**30
SHARED_MEMORY = Path("/dev/shm")


def examine() -> Iterator[Finding]:
    """Findings of this machine and its environment variables."""
    gpus = torch.cuda.device_count()
    if not gpus:
        yield not_run("GPUs", "torch sees none: ranks are CPU processes that talk over gloo")
    for index in range(gpus):
        yield check_gpu(index)
    yield check_cores(usable_cores(), cgroup_cores())
    yield check_memory(part_of_free())
    if SHARED_MEMORY.exists():
        yield check_shared_memory(shutil.disk_usage(SHARED_MEMORY).total, gpus)
    yield check_meeting(os.environ)


def check_gpu(index: int) -> Finding:
    """Whether a GPU answers, and whether this build of torch has kernels for it."""
    name = f"cuda:{index}"
    try:
        properties = torch.cuda.get_device_properties(index)
        free, size = torch.cuda.mem_get_info(index)
        torch.zeros(1, device=name).add(1).item()
    except RuntimeError as error:
        hint = "nvidia-smi shows whether another process uses it exclusively; 'no kernel image': install another torch"
        return problem(name, f"does not work: {str(error).splitlines()[0]}", hint)
    value = f"{properties.name}, {size / GIB:.0f} GiB, compute capability {properties.major}.{properties.minor}"
    if free < 0.9 * size:
        hint = "nvidia-smi shows by whom; training uses what is free"
        return warning(name, f"{value}: {(size - free) / GIB:.1f} GiB are in use", hint)
    return ok(name, value)


def check_cores(usable: int, quota: float | None) -> Finding:
    """Cores of this process, and a container's quota of them."""
    if quota is not None and quota < usable - 0.5:
        settings = f"PET_NPROC_PER_NODE={max(1, int(quota))} OMP_NUM_THREADS=1"
        hint = f"threads beyond the quota are halted: set {settings}, or raise the quota"
        return warning("cores", f"{usable} usable, but the container may use {quota:.1f} of them", hint)
    return ok("cores", f"{usable}; {os.getloadavg()[0]:.1f} processes ran in the last minute")


def check_memory(available: int) -> Finding:
    """Whether ranks find memory; `available` in bytes."""
    value = f"{available / GIB:.1f} GiB available"
    if available < 2 * GIB:
        return warning("memory", value, "a rank needs about 1 GiB: end other programs or start fewer ranks")
    return ok("memory", value)


def check_shared_memory(size: int, gpus: int) -> Finding:
    """Whether /dev/shm (`size` in bytes) is large enough; several GPUs need it, containers often have 64 MiB."""
    if size >= GIB:
        return ok("/dev/shm", f"{size / GIB:.1f} GiB")
    how = "docker run --shm-size=8g; on Kubernetes an emptyDir of medium Memory at /dev/shm"
    hint = f"loader processes and NCCL need 1 GiB: {how}"
    return (problem if gpus > 1 else warning)("/dev/shm", f"{size / 2**20:.0f} MiB", hint)


def check_meeting(env: Mapping[str, str]) -> Finding:
    """Whether `PET_*` describe this node, and the first node has an address."""
    try:
        node = Node.of(env)
        address = socket.gethostbyname(node.host)
    except SonorantError as error:
        return problem("rendezvous", f"PET_* variables: {error}", "set them as docs/training.md says")
    except OSError:
        return problem("rendezvous", f"{node.host} has no address", "use a name of the first node that resolves here")
    if node.count == 1:
        return ok("rendezvous", "one node (PET_NNODES is not set above 1)")
    return ok("rendezvous", f"node {node.rank} of {node.count}; the first is {node.host} ({address})")


def cgroup_cores(root: Path = CGROUP) -> float | None:
    """Cores that the container's quota allows (cgroup v2); None = no quota."""
    try:
        quota, period = (root / "cpu.max").read_text().split()
    except (OSError, ValueError):
        return None
    return None if quota == "max" else int(quota) / int(period)
