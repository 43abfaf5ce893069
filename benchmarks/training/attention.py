"""How do memory and time of attention grow with length: written out, torch's SDPA, a sliding window, blocks?

    python -m benchmarks attention

Forward and backward of the attention alone, with given queries, keys and values, on one thread in float32: --rows
utterances of 4 heads of 64 channels, 5 to 40 seconds long, at the frame rates of the demo's codec and mels, in
windows of 4 seconds. `written_out` computes the scores operator by operator. Each cell is a separate process. Memory
is the peak of torch's allocator above its initial value, which is the same in every run. (Resident memory is not,
because the C library keeps freed memory: a peak of 37 MiB showed as 48 or 71.)
"""

import itertools
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.profiler import ProfilerActivity, profile
from tqdm import tqdm

from benchmarks.processes import answer, ask
from benchmarks.report import command, finish, options
from sonorant.layers.attention import attend

SECONDS = (5, 10, 20, 40)
RATES = {"codec": 31.25, "mel": 62.5}
"""Positions per second."""
WINDOW = 4.0
HEADS, WIDTH = 4, 64
CLAIM_SECONDS, MOST_MEMORY = 20, 0.25
SHORT = {"rounds": 1, "seconds": [5, 20]}

Tensors = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def main() -> None:
    parser = command(__doc__)
    add = parser.add_argument
    add("--rows", type=int, default=2, help="utterances of a batch (default 2)")
    add("--rounds", type=int, default=5, help="forward and backward passes timed in each cell (default 5)")
    add("--seconds", type=int, nargs="+", default=SECONDS, help="lengths; claims need 20 (default 5 10 20 40)")
    add("--device", default="cpu", choices=("cpu", "cuda"))
    given = options(parser, SHORT)
    result: dict[str, Any] = {"window_s": WINDOW, "rows": given.rows, "heads": HEADS, "width": WIDTH}
    result |= {"device": given.device}
    cells = [(rate, seconds, way) for rate in RATES for seconds in given.seconds for way in WAYS]
    for rate, seconds, way in tqdm(cells, desc="attention", unit="cell"):
        row = result.setdefault(rate, {}).setdefault(f"{seconds} s", {"positions": round(seconds * RATES[rate])})
        cell = {"way": way, "positions": row["positions"], "window": round(WINDOW * RATES[rate])}
        cell |= {"rows": given.rows, "rounds": given.rounds, "device": given.device}
        row[way] = ask("benchmarks.training.attention", "measure", job=cell, OMP_NUM_THREADS="1")
    for row in (row for rate in RATES for row in result[rate].values()):
        for way in WAYS:
            row[way]["over_sdpa"] = {key: round(row[way][key] / row["sdpa"][key], 2) for key in ("peak_mib", "ms")}
    finish("attention", result, claims(result), given)


def claims(result: dict[str, Any]) -> dict[str, bool]:
    """Claims on blocks against written-out scores, by frame rate."""
    found = {}
    for rate in RATES:
        what = f"{CLAIM_SECONDS} s at the {rate}'s frame rate in {WINDOW:g} s blocks"
        if cell := result[rate].get(f"{CLAIM_SECONDS} s"):
            least = cell["block"]["peak_mib"] <= MOST_MEMORY * cell["written_out"]["peak_mib"]
            found[f"{what} take at most {MOST_MEMORY:.0%} of written-out memory"] = least
    return found


def measure(way: str, positions: int, window: int, rows: int, rounds: int, device: str) -> dict[str, float]:
    """Peak memory of one pass, and the median time of later passes."""
    attention = partial(WAYS[way], window)
    warm = _inputs(1, 2 * window + 1, device)
    _pass(attention, warm)  # libraries load and threads start
    inputs = _inputs(rows, positions, device)
    peak = peak_of(lambda: _pass(attention, inputs), device)
    took = []
    for _ in range(rounds):
        began = time.perf_counter()
        _pass(attention, inputs)
        took.append(time.perf_counter() - began)
    return {"peak_mib": round(peak / 2**20, 1), "ms": round(1000 * float(np.median(took)), 2)}


def _inputs(rows: int, positions: int, device: str) -> Tensors:
    torch.manual_seed(0)
    query, key, value = torch.randn(3, rows, HEADS, positions, WIDTH, device=device).unbind()
    return query.requires_grad_(), key.requires_grad_(), value.requires_grad_()


def _pass(attention: Callable[..., torch.Tensor], inputs: Tensors) -> None:
    torch.autograd.grad(attention(*inputs).square().sum(), inputs)
    if inputs[0].is_cuda:
        torch.cuda.synchronize()


def _written_out(window: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    length = query.shape[2]
    later = torch.ones(length, length, dtype=torch.bool, device=query.device).triu(1)
    scores = query @ key.transpose(-1, -2) / WIDTH**0.5
    return scores.masked_fill(later, -torch.inf).softmax(-1) @ value


WAYS: dict[str, Callable[..., torch.Tensor]] = {
    "written_out": _written_out,
    "sdpa": partial(attend, "full"),
    "sliding": partial(attend, "sliding"),
    "block": partial(attend, "block"),
}
"""By name: window, query, key, value -> (B, H, T, C)."""


def peak_of(call: Callable[[], None], device: str) -> int:
    """Peak bytes of torch's allocator during `call`, above its initial value."""
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        call()
        return torch.cuda.max_memory_allocated() - before
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        call()
    assert profiler.profiler is not None
    events = profiler.profiler.kineto_results.events()
    changes = sorted((event.start_ns(), event.nbytes()) for event in events if event.name() == "[memory]")
    return max(itertools.accumulate(change for _, change in changes))


if __name__ == "__main__":
    if sys.argv[1:] == ["measure"]:
        answer(dict, {"measure": lambda cell: measure(**cell)})
    else:
        main()
