"""Resolve `precision: auto`: time fp32 and half precision on a micro-batch, on all ranks simultaneously.

bf16 takes 0.75 times as long as fp32 on one CPU and 1.3 times on another (docs/log/training.md).
"""

import time

import torch

from sonorant.features.batches import Batch
from sonorant.training.memory import STEPS_AN_EPOCH
from sonorant.training.step import TrainStep
from sonorant.training.sub_batches import out_of_memory, release

ROUNDS = 3
WORTH = 1.05
"""Minimum speed-up over fp32 to choose half precision."""
_SMALL = 8
"""If the budget is unknown, precisions are timed with this multiple of the smallest."""


def half_of(device: torch.device) -> str:
    """Return the half precision for a device: fp16 on GPUs before Ampere, otherwise bf16."""
    lacks_bf16 = device.type == "cuda" and torch.cuda.get_device_capability(device)[0] < 8
    return "fp16" if lacks_bf16 else "bf16"


def find_precision(trained: TrainStep) -> str:
    """Set the precision that is fastest on the slowest rank; return a log line.

    A collective call; changes no weights and no random state.
    """
    recipe, ranks = trained.recipe, trained.ranks
    found = recipe.budget
    if found is None:
        smallest, largest = recipe.budget_range(STEPS_AN_EPOCH)
        recipe.budget = min(largest, _SMALL * smallest)
    batch = {name: value.to(ranks.device) for name, value in recipe.dataset(recipe.heaviest()[:1])[0].items()}
    recipe.budget = found
    half = half_of(ranks.device)
    seconds = dict.fromkeys(("fp32", half), float("inf"))
    for measured in range(-1, ROUNDS):  # interleaved; the first round warms up
        for precision in seconds:
            trained.set_precision(precision)
            taken = _seconds(trained, batch)
            if measured >= 0:
                seconds[precision] = min(seconds[precision], taken)
    slowest = {precision: max(each[precision] for each in ranks.gather(seconds)) for precision in seconds}
    chosen = half if slowest[half] * WORTH <= slowest["fp32"] else "fp32"
    trained.set_precision(chosen)
    times = ", ".join(
        f"{precision} {1000 * value:.0f} ms" if value < float("inf") else f"{precision} out of memory"
        for precision, value in slowest.items()
    )
    return f"precision {chosen}; time per micro-batch: {times}"


def _seconds(trained: TrainStep, batch: Batch) -> float:
    device = trained.ranks.device
    try:
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        started = time.perf_counter()
        trained.dry_run(batch)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return time.perf_counter() - started
    except (RuntimeError, MemoryError) as error:
        if not out_of_memory(error):
            raise
    release(device)  # after the handler: the traceback holds the tensors
    return float("inf")
