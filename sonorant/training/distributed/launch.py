"""Run torchrun for a job, on one machine or several.

torchrun is configured by `PET_*` variables; missing ones get defaults for this machine. Each node launches the same
job.
"""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from sonorant.errors import SonorantError, Stopped
from sonorant.files import read_json
from sonorant.processes import run_stoppable, usable_cores
from sonorant.training.distributed.ranks import die_with_parent
from sonorant.training.run_directory import RunDirectory
from sonorant.training.worker import Job, outcome_beside

DEFAULT_PORT = "29500"
LOCAL = ("localhost", "127.0.0.1", "::1")
"""Addresses of this machine, valid if all nodes run on it."""
JOIN_SECONDS = 600
"""Seconds a node waits for the others; `PET_RDZV_CONF=timeout=<seconds>` overrides it."""
SHUTDOWN_SECONDS = 20
"""Seconds that ranks have to save after a SIGTERM."""
WORKER = "sonorant.training.worker"


KEEP_MEMORY = {
    "MALLOC_MMAP_THRESHOLD_": str(2**30),
    "MALLOC_TRIM_THRESHOLD_": str(2**33),
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
}
"""glibc settings to keep freed memory and use huge pages; otherwise page faults take 10 to 20 % of a vocoder's step on
CPUs."""


@dataclass(frozen=True, kw_only=True)
class Node:
    """A node of a training run, described by PET_* variables."""

    rank: int = 0
    """Number of the node; node 0 writes the model and run directory, and hosts the rendezvous."""
    count: int = 1
    host: str = ""
    """Address of the first node; empty for a single node."""
    port: str = DEFAULT_PORT

    @property
    def first(self) -> bool:
        return self.rank == 0

    @classmethod
    def of(cls, env: Mapping[str, str]) -> Node:
        """Read PET_NNODES, PET_NODE_RANK and PET_RDZV_ENDPOINT or PET_MASTER_ADDR. Raises SonorantError if any is
        invalid."""
        count = env.get("PET_NNODES", "1")
        if not count.isdigit() or int(count) < 1:
            raise SonorantError(f"PET_NNODES={count}: give a number of at least 1")
        if count == "1":
            return cls()
        rank = env.get("PET_NODE_RANK", "")
        if not rank.isdigit() or int(rank) >= int(count):
            raise SonorantError(f"PET_NODE_RANK={rank or '(unset)'}: give a number from 0 to {int(count) - 1}")
        host, _, port = env.get("PET_RDZV_ENDPOINT", "").rpartition(":")
        if not host:
            host, port = port or env.get("PET_MASTER_ADDR", ""), env.get("PET_MASTER_PORT", DEFAULT_PORT)
        if not host:
            raise SonorantError("PET_MASTER_ADDR is unset; set it to the first node's address on every node")
        return cls(rank=int(rank), count=int(count), host=host, port=port)


def launch(job: Job) -> None:
    """Train `job` on this node's ranks. Only the first node needs the run directory.

    Raises Stopped after a SIGTERM, once the ranks have saved, and SonorantError if training fails.
    """
    run = RunDirectory(Path(job.run))
    node, before = Node.of(os.environ), run.status()
    env = environment(os.environ, job.train["micro_batches_per_step"])
    warning = idle(env, job.train["micro_batches_per_step"])
    if warning and node.first:
        print(f"warning: {job.recipe}: {warning}", file=sys.stderr, flush=True)
    # Not in the run directory, where another launch may start.
    with tempfile.TemporaryDirectory() as folder:
        job_file = Path(folder) / "job.json"
        job.write(job_file)
        told_to_stop = _run_agent(job_file, env)
        outcome = read_json(outcome_beside(job_file)) if outcome_beside(job_file).exists() else {"state": "failed"}
    if outcome["state"] == "stopped":
        raise Stopped(f"{job.recipe}: stopped and saved at step {outcome['step']}; the same command resumes there")
    if outcome["state"] == "finished":
        if told_to_stop:  # during the last step; the caller must not go on either
            raise Stopped(f"{job.recipe}: stopped after its last step; the same command goes on")
        return
    status = run.status()
    if not node.first:
        raise SonorantError(f"{job.recipe}: training failed, see above and on the first node ({node.host})")
    if status == before:
        if told_to_stop:
            raise Stopped(f"{job.recipe}: stopped before training began; the same command starts it")
        raise SonorantError(f"{job.recipe}: training did not start, see above")
    cause = status["message"] or "a rank was killed or a node was lost, see above"
    raise SonorantError(
        f"{job.recipe}: training failed after step {status['step']}: {cause}; "
        "the same command resumes from its last checkpoint"
    )


def _run_agent(job_file: Path, env: dict[str, str]) -> bool:
    """Run torchrun; return whether it was stopped by a signal."""
    command = [sys.executable, "-m", "sonorant.training.distributed.agent", "-m", WORKER, str(job_file)]

    def stop(agent: subprocess.Popen[bytes]) -> None:
        print("stopping: the training saves first", flush=True)
        agent.send_signal(signal.SIGTERM)

    return run_stoppable(command, stop, env=env, start_new_session=True, preexec_fn=die_with_parent)[1]


def environment(given: Mapping[str, str], micro_batches_per_step: int) -> dict[str, str]:
    """Return `given` with torchrun's settings completed. Raises SonorantError if PET_* variables are invalid.

    The default is one process per GPU or CPU core, limited to one per micro-batch. On CPUs, two processes with one
    thread are 1.5 times as fast as one with two, because Fourier transforms and sorting are single-threaded.
    """
    node, cores = Node.of(given), usable_cores()
    most = max(1, micro_batches_per_step // node.count)
    processes = _processes(given.get("PET_NPROC_PER_NODE", ""), cores, most)
    defaults = {
        "OMP_NUM_THREADS": str(max(1, cores // processes)),
        "PET_SHUTDOWN_TIMEOUT": str(SHUTDOWN_SECONDS),
        # Spinning threads would take cores from other processes.
        "OMP_WAIT_POLICY": "passive",
        "GOMP_SPINCOUNT": "0",
        **KEEP_MEMORY,
        # Print no C++ stack when a peer is lost.
        "TORCH_CPP_LOG_LEVEL": "ERROR",
    }
    fixed = {
        "PET_NNODES": str(node.count),
        "PET_NPROC_PER_NODE": str(processes),
        "SONORANT_WORLD_SIZE": str(node.count * processes),
        # Restarted ranks would read stale addresses (pytorch issue 135712).
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
    }
    return {**defaults, **given, **fixed, **_meeting(node, given)}


def _processes(wanted: str, cores: int, most: int) -> int:
    """Return a node's number of processes. `wanted` is a number, gpu, cpu or auto; empty means one per GPU or core, up
    to `most`."""
    gpus = torch.cuda.device_count()
    words = {"gpu": gpus, "cpu": cores, "auto": gpus or cores, "": min(gpus or cores, most)}
    processes = words.get(wanted, int(wanted) if wanted.isdecimal() else 0)
    if processes < 1:
        why = (
            "torch finds no GPU here; use cpu or a number"
            if wanted == "gpu"
            else "give a number of at least 1, gpu, cpu or auto"
        )
        raise SonorantError(f"PET_NPROC_PER_NODE={wanted}: {why}")
    return processes


def idle(env: Mapping[str, str], micro_batches_per_step: int) -> str | None:
    """Return a warning about idle processes or GPUs, or None."""
    world, here, gpus = int(env["SONORANT_WORLD_SIZE"]), int(env["PET_NPROC_PER_NODE"]), torch.cuda.device_count()
    if world > micro_batches_per_step:
        found, wanted = f"{world - micro_batches_per_step} of {world} processes have nothing to do", world
    elif here < gpus and world + world // here > micro_batches_per_step:  # one more process per node would be idle
        found, wanted = f"{gpus - here} of this machine's {gpus} GPUs are not used", world // here * gpus
    else:
        return None
    few = f"a step has {micro_batches_per_step} micro-batches"
    return f"{found}: {few}; set micro_batches_per_step to a multiple of {wanted}"


def _meeting(node: Node, given: Mapping[str, str]) -> dict[str, str]:
    if node.count == 1:
        # An IP address, because resolving the host name may take minutes.
        alone = {"PET_STANDALONE": "1", "PET_LOCAL_ADDR": "127.0.0.1"}
        return {} if "PET_RDZV_ENDPOINT" in given else {name: given.get(name, value) for name, value in alone.items()}
    found = {
        # Other backends number nodes by arrival; node 0 must be the one that writes.
        "PET_RDZV_BACKEND": "static",
        "PET_RDZV_ENDPOINT": f"{node.host}:{node.port}",
        "PET_RDZV_CONF": given.get("PET_RDZV_CONF", f"timeout={JOIN_SECONDS}"),
    }
    interface = None if "GLOO_SOCKET_IFNAME" in given else interface_towards(node.host)
    return found | ({"GLOO_SOCKET_IFNAME": interface} if interface else {})


def interface_towards(host: str) -> str | None:
    """Return the network interface that reaches `host`, or None if unknown; gloo's default may be loopback. Raises
    SonorantError if `host` is loopback."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((host, 9))
            own = probe.getsockname()[0]
            if own.startswith("127.") and host not in LOCAL:
                raise SonorantError(
                    f"PET_MASTER_ADDR: {host} is loopback on this node: give an address that all nodes can reach"
                )
            return next((name for _, name in socket.if_nameindex() if _address(probe, name) == own), None)
    except OSError:
        return None


def _address(probe: socket.socket, interface: str) -> str | None:
    ask_address = 0x8915  # SIOCGIFADDR of Linux
    request = struct.pack("256s", interface.encode()[:15])
    try:
        return socket.inet_ntoa(fcntl.ioctl(probe.fileno(), ask_address, request)[20:24])
    except OSError:
        return None
