"""Test whether ranks average their gradients, and measure how long an all-reduce takes.

`examine` starts torchrun as training does; each rank runs this module as a program."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

from sonorant.extras.doctor.finding import Finding, ok, problem
from sonorant.files import read_json, write_json
from sonorant.training.distributed.launch import environment
from sonorant.training.distributed.ranks import die_with_parent

SECONDS = 180
"""Maximum seconds of a test; importing torch from a cold disk takes most of them."""
ROUNDING = 1e-5
SIZES = (2**20, 25 * 2**20)
"""Sizes in bytes of the timed all-reduces: a small one, and that of a DDP bucket."""
REPEATS = 5
HINTS = {
    "cuda": "run NCCL_DEBUG=INFO sonorant doctor to see where NCCL stops; "
    "often NCCL_P2P_DISABLE=1, more /dev/shm or another driver helps",
    "cpu": "export GLOO_SOCKET_IFNAME=lo, and check that no firewall blocks local connections",
}
"""What to try if ranks cannot connect, per device type."""


def examine() -> Iterator[Finding]:
    """Test one rank per GPU, and two CPU ranks if there are fewer than two GPUs."""
    gpus = torch.cuda.device_count()
    if gpus:
        yield check("cuda", gpus, os.environ)
    if gpus < 2:
        yield check("cpu", 2, os.environ)


def check(kind: str, ranks: int, env: Mapping[str, str]) -> Finding:
    """Check that `ranks` processes average their gradients, and measure the speed. `kind` is cuda or cpu."""
    name = f"{ranks} {'rank' if ranks == 1 else 'ranks'}, {'NCCL' if kind == 'cuda' else 'gloo'}"
    # With settings for several nodes, this test would wait for the other nodes.
    own = {key: value for key, value in env.items() if not key.startswith("PET_")}
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "result.json"
        failure = start(kind, result, environment({**own, "PET_NPROC_PER_NODE": str(ranks)}, ranks))
        return problem(name, failure, HINTS[kind]) if failure else judge(name, read_json(result))


def judge(name: str, result: dict) -> Finding:
    ranks = result["ranks"]
    if not result["difference"] <= ROUNDING:
        value = f"gradients differ from their mean by {result['difference']:.1e}"
        hint = "each rank would train separately: reinstall torch, and check the variables NCCL_* and TORCH_NCCL_*"
        return problem(name, value, hint)
    times = []
    for size, seconds in result["seconds"]:
        bandwidth = 2 * (ranks - 1) / ranks * size / seconds / 1e9
        times.append(f"all-reduce of {size // 2**20} MiB {seconds * 1e3:.2f} ms ({bandwidth:.2f} GB/s)")
    return ok(name, "gradients are averaged; " + ", ".join(times))


def start(kind: str, result: Path, env: dict[str, str]) -> str:
    """Run torchrun to completion. Return a one-line reason if it failed, otherwise an empty string."""
    program = ["-m", "sonorant.extras.doctor.gradient_test", kind, str(result)]
    child = subprocess.Popen(
        [sys.executable, "-m", "sonorant.training.distributed.agent", *program],
        env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True,
    )  # fmt: skip
    try:
        _, errors = child.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate()
        return f"not finished after {SECONDS} s"
    if child.returncode == 0:
        return ""
    lines = [line for line in errors.splitlines() if "Error" in line] or errors.splitlines() or ["no output"]
    return f"ended with {child.returncode}: {lines[0].strip()}"


def averaged_gradients(device: torch.device) -> float:
    """Return the largest difference between DDP's gradients and the mean of the ranks' separately computed
    gradients."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Tanh(), torch.nn.Linear(64, 8)).to(device)
    data = torch.randn(16, 64, generator=torch.Generator().manual_seed(1 + dist.get_rank())).to(device)
    own = torch.autograd.grad(model(data).square().mean(), list(model.parameters()))
    wrapped = torch.nn.parallel.DistributedDataParallel(model)
    wrapped(data).square().mean().backward()
    worst = torch.zeros((), device=device)
    for parameter, gradient in zip(model.parameters(), own, strict=True):
        dist.all_reduce(gradient)
        assert parameter.grad is not None
        worst = torch.maximum(worst, (parameter.grad - gradient / dist.get_world_size()).abs().max())
    dist.all_reduce(worst, op=dist.ReduceOp.MAX)
    return worst.item()


def all_reduce_seconds(size: int, device: torch.device) -> float:

    tensor = torch.ones(size // 4, device=device)
    seconds = []
    for _ in range(1 + REPEATS):
        dist.barrier()
        start = time.perf_counter()
        dist.all_reduce(tensor)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        seconds.append(time.perf_counter() - start)
    return sorted(seconds[1:])[REPEATS // 2]


def main() -> None:
    die_with_parent()
    kind, result = sys.argv[1:]
    device = torch.device(kind, int(os.environ["LOCAL_RANK"])) if kind == "cuda" else torch.device(kind)
    if kind == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if kind == "cuda" else "gloo", timeout=timedelta(seconds=60))
    difference = averaged_gradients(device)
    seconds = [(size, all_reduce_seconds(size, device)) for size in SIZES]
    if dist.get_rank() == 0:
        write_json(Path(result), {"ranks": dist.get_world_size(), "difference": difference, "seconds": seconds})
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
