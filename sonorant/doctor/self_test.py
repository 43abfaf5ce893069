"""Starts ranks as training does and lets them average gradients. Knows nothing of what they compute;
`sonorant/doctor/rank.py` does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import torch

from sonorant.doctor.finding import Finding, ok, problem
from sonorant.files import read_json
from sonorant.training.distributed.launch import environment

AREA = "ranks"
SECONDS = 180
"""Patience with the whole test; importing torch on a cold disk takes most of it."""
ROUNDING = 1e-5


def look(env: Mapping[str, str]) -> Iterator[Finding]:
    """Findings of ranks on all GPUs, and of two on CPUs where there are not two GPUs."""
    gpus = torch.cuda.device_count()
    if gpus:
        yield find("cuda", gpus, env)
    if gpus < 2:
        yield find("cpu", 2, env)


def find(kind: str, ranks: int, env: Mapping[str, str]) -> Finding:
    """Whether `ranks` processes on devices of a `kind` average their gradients, and how fast."""
    backend = "NCCL" if kind == "cuda" else "gloo"
    name = f"{ranks} ranks, {backend}" if ranks > 1 else f"1 rank, {backend}"
    # What is set for several nodes would have this test wait for them.
    own = {key: value for key, value in env.items() if not key.startswith("PET_")}
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "result.json"
        said = start(kind, result, environment({**own, "PET_NPROC_PER_NODE": str(ranks)}, ranks))
        if said is not None:
            return problem(AREA, name, said, hint(kind))
        return judge(name, read_json(result))


def judge(name: str, result: dict) -> Finding:
    """The ranks' result as a finding: the time of each all-reduce, and what crosses a rank's link a second (bus
    bandwidth)."""
    ranks = result["ranks"]
    if not result["difference"] <= ROUNDING:
        return problem(
            AREA, name, f"gradients differ from their mean by {result['difference']:.1e}",
            "every rank would train alone: install torch again, and look at what changes its collectives (NCCL_*, TORCH_NCCL_*)",
        )  # fmt: skip
    times = []
    for size, seconds in result["seconds"]:
        bandwidth = 2 * (ranks - 1) / ranks * size / seconds / 1e9
        crossing = f" ({bandwidth:.2f} GB/s)" if ranks > 1 else ""
        times.append(f"all-reduce of {size // 2**20} MiB {seconds * 1e3:.2f} ms{crossing}")
    return ok(AREA, name, "gradients are averaged; " + ", ".join(times))


def hint(kind: str) -> str:
    """What to try when ranks do not meet."""
    if kind == "cuda":
        return "NCCL_DEBUG=INFO sonorant doctor shows where NCCL stops; often NCCL_P2P_DISABLE=1, more /dev/shm or another driver helps"
    return "export GLOO_SOCKET_IFNAME=lo, and let no firewall stand between a machine and itself"


def start(kind: str, result: Path, env: dict[str, str]) -> str | None:
    """Run torchrun to its end. What went wrong in one line, or None."""
    command = [
        sys.executable,
        "-m",
        "sonorant.training.distributed.agent",
        "-m",
        "sonorant.doctor.rank",
        kind,
        str(result),
    ]
    child = subprocess.Popen(
        command,
        env=env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        _, errors = child.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate()
        return f"not done after {SECONDS} s"
    if child.returncode == 0 and result.exists():
        return None
    telling = [line for line in errors.splitlines() if "Error" in line] or errors.splitlines() or ["said nothing"]
    return f"ended with {child.returncode}: {telling[0].strip()}"
