"""Check GPUs, cores, memory, shared memory, and the rendezvous address of a training run on several nodes."""

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
    gpus = torch.cuda.device_count()
    if not gpus:
        yield not_run("GPUs", "torch finds none: ranks are CPU processes that communicate over gloo")
    for index in range(gpus):
        yield check_gpu(index)
    yield check_cores(usable_cores(), cgroup_cores())
    yield check_memory(part_of_free())
    if SHARED_MEMORY.exists():
        yield check_shared_memory(shutil.disk_usage(SHARED_MEMORY).total, gpus)
    yield check_meeting(os.environ)


def check_gpu(index: int) -> Finding:
    """Check that a GPU works and that this build of torch has kernels for it."""
    name = f"cuda:{index}"
    try:
        properties = torch.cuda.get_device_properties(index)
        free, size = torch.cuda.mem_get_info(index)
        torch.zeros(1, device=name).add(1).item()
    except RuntimeError as error:
        hint = "check with nvidia-smi that no process uses it exclusively; 'no kernel image': install another torch"
        return problem(name, f"does not work: {str(error).splitlines()[0]}", hint)
    value = f"{properties.name}, {size / GIB:.0f} GiB, compute capability {properties.major}.{properties.minor}"
    if free < 0.9 * size:
        hint = "nvidia-smi lists the processes; training uses only free memory"
        return warning(name, f"{value}: {(size - free) / GIB:.1f} GiB are in use", hint)
    return ok(name, value)


def check_cores(usable: int, quota: float | None) -> Finding:
    """Report the usable cores; warn if a container's `quota` is lower."""
    if quota is not None and quota < usable - 0.5:
        settings = f"PET_NPROC_PER_NODE={max(1, int(quota))} OMP_NUM_THREADS=1"
        hint = f"threads beyond the quota are throttled: set {settings}, or raise the quota"
        return warning("cores", f"{usable} usable, but the container's quota is {quota:.1f}", hint)
    return ok("cores", f"{usable}; load average {os.getloadavg()[0]:.1f} over the last minute")


def check_memory(available: int) -> Finding:

    value = f"{available / GIB:.1f} GiB available"
    if available < 2 * GIB:
        return warning("memory", value, "a rank needs about 1 GiB: stop other programs or start fewer ranks")
    return ok("memory", value)


def check_shared_memory(size: int, gpus: int) -> Finding:
    """Check that /dev/shm (`size` bytes) is large enough. Several GPUs need it; containers often have 64 MiB."""
    if size >= GIB:
        return ok("/dev/shm", f"{size / GIB:.1f} GiB")
    how = "docker run --shm-size=8g, or on Kubernetes an emptyDir of medium Memory at /dev/shm"
    hint = f"loader processes and NCCL need 1 GiB: use {how}"
    return (problem if gpus > 1 else warning)("/dev/shm", f"{size / 2**20:.0f} MiB", hint)


def check_meeting(env: Mapping[str, str]) -> Finding:
    """Check that the `PET_*` variables describe this node and that the first node's name resolves."""
    try:
        node = Node.of(env)
        address = socket.gethostbyname(node.host)
    except SonorantError as error:
        return problem("rendezvous", f"PET_* variables: {error}", "set them as described in docs/training.md")
    except OSError:
        return problem("rendezvous", f"cannot resolve {node.host}", "use a name of the first node that resolves here")
    if node.count == 1:
        return ok("rendezvous", "one node (PET_NNODES is not above 1)")
    return ok("rendezvous", f"node {node.rank} of {node.count}; the first is {node.host} ({address})")


def cgroup_cores(root: Path = CGROUP) -> float | None:
    """Return the number of cores that the container's quota allows (cgroup v2), or None without a quota."""
    try:
        quota, period = (root / "cpu.max").read_text().split()
    except (OSError, ValueError):
        return None
    return None if quota == "max" else int(quota) / int(period)
