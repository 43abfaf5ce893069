"""One rank of the doctor's self-test: do gradients come out averaged, and how long does an all-reduce take? Knows
nothing of models.

torchrun --nproc-per-node 2 -m sonorant.doctor.rank cuda result.json
"""

from __future__ import annotations

import os
import sys
import time
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

from sonorant.files import write_json
from sonorant.training.distributed.ranks import die_with_parent

PATIENCE = timedelta(seconds=60)
SIZES = (2**20, 25 * 2**20)
"""Bytes of the all-reduces that are timed: a small one, and DDP's bucket."""
REPEATS = 5


def averaged_gradients(device: torch.device) -> float:
    """Largest difference between the gradients that DDP leaves and the mean of all ranks' own, each from data of its
    own."""
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
    """Median seconds of an all-reduce of `size` bytes."""
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
    """Join the others, test, and on rank 0 write what came out."""
    die_with_parent()
    kind, result = sys.argv[1:]
    device = torch.device(kind, int(os.environ["LOCAL_RANK"])) if kind == "cuda" else torch.device(kind)
    if kind == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group(
        "nccl" if kind == "cuda" else "gloo", timeout=PATIENCE, device_id=device if kind == "cuda" else None
    )
    difference = averaged_gradients(device)
    seconds = {size: all_reduce_seconds(size, device) for size in SIZES}
    if dist.get_rank() == 0:
        write_json(
            Path(result), {"ranks": dist.get_world_size(), "difference": difference, "seconds": list(seconds.items())}
        )
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
