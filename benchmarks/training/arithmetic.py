"""Where a training step's time goes: its arithmetic beside what this processor reaches, and the operators that take
the rest.

    python -m benchmarks arithmetic --features data/features

Each model of params.yaml takes optimizer steps in this process, on one thread, in turn with a matrix product of 1024 x
1024, which shows what the core reaches in the same minutes. The work is counted as it runs (matrix products and
convolutions; `sonorant plan` counts the same), and torch's profiler says which operators the time went to. What no
operator accounts for is Python, the alignment search and what launches operators.
"""

import argparse
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import torch
import torch.distributed as dist
from torch.profiler import ProfilerActivity, profile

from benchmarks.report import command, finish, options
from benchmarks.training.plain_training import BATCH
from benchmarks.training.training_cases import MODELS, jobs
from sonorant.extras.planning.work import work_of
from sonorant.training.distributed.ranks import Ranks
from sonorant.training.step import TrainStep
from sonorant.training.telemetry.stopwatch import Stopwatch
from sonorant.training.worker import Job, recipe_of
from testbed.synthetic_corpus import SPEECH, write_corpus

SIDE = 1024
KINDS = {
    "products": ("mm", "addmm", "bmm", "baddbmm", "mkldnn_convolution", "convolution_backward", "_scaled_dot_product"),
    "transforms": ("_fft",),
    "activations": ("gelu", "leaky_relu", "silu", "exp", "log", "sqrt", "tanh", "sigmoid", "_softmax", "_log_softmax"),
    "normalisation": ("native_layer_norm", "linalg_vector_norm", "_weight_norm"),
    "copies": ("copy_", "cat", "index", "gather", "scatter", "fill_", "zero_", "constant_pad", "embedding"),
    "random numbers": ("random_", "normal_", "uniform_", "bernoulli_"),
    "weights": ("_fused_adamw_", "_foreach"),
}
"""Beginnings of the names of operators; all others are elementwise."""
NAMED = 0.75
"""Claimed: the share of a step's time that operators account for."""
SHORT = {"rounds": 1, "models": ["regression"], "features": None}


def kind_of(operator: str) -> str:
    """What an operator does."""
    name = operator.removeprefix("aten::")
    return next((kind for kind, names in KINDS.items() if name.startswith(names)), "elementwise")


def operators(call: Callable[[], object]) -> dict[str, float]:
    """Share of the time of each kind of operator, and what none accounts for."""
    with profile(activities=[ProfilerActivity.CPU]) as profiled:
        start = time.perf_counter()
        call()
        seconds = time.perf_counter() - start
    found: dict[str, float] = defaultdict(float)
    for event in profiled.key_averages():
        if event.key.startswith("aten::"):
            found[kind_of(event.key)] += event.self_cpu_time_total / 1e6 / seconds
    shares = {kind: round(share, 3) for kind, share in sorted(found.items(), key=lambda pair: -pair[1])}
    return shares | {"no operator": round(1 - sum(found.values()), 3)}


def measure(job: Job, precision: str, rounds: int) -> dict[str, Any]:
    """A model's step beside the product, in turn."""
    recipe = recipe_of(replace(job, train={**job.train, "precision": precision}))
    trained = TrainStep(recipe, Ranks(0, 1, 0, torch.device("cpu")), Stopwatch())
    planned = recipe.plan.steps(0)[0]
    data = recipe.dataset(planned)
    loaded = [data[index] for index in range(len(planned))]

    def step() -> None:
        trained.take(0, planned, (dict(batch) for batch in loaded))

    for batch in loaded:
        trained.dry_run(batch)
    work = work_of(step)
    step()  # warms up
    square = torch.randn(SIDE, SIDE, dtype=torch.bfloat16 if precision == "bf16" else torch.float32)
    steps, products = [], []
    for _ in range(rounds):
        steps.append(_seconds(step))
        products.append(min(_seconds(lambda: square @ square) for _ in range(5)))
    peak = 2 * SIDE**3 / median(products)
    return {
        "seconds": round(median(steps), 4),
        "gigaflop": round(work.flops / 1e9, 2),
        "gigabytes": round(work.bytes / 1e9, 2),
        "operators": work.operations,
        "gigaflops_of_the_core": round(peak / 1e9, 1),
        "share_of_the_core": round(median(work.flops / taken / (2 * SIDE**3 / product)
                                          for taken, product in zip(steps, products, strict=True)), 3),
        "time": operators(step),
    }  # fmt: skip


def _seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def judge(arguments: argparse.Namespace, features: Path, folder: Path) -> tuple[dict[str, Any], dict[str, bool]]:
    """All models in both precisions; figures and the claim."""
    found = {}
    for name, job in jobs(features, folder).items():
        for precision in ("fp32", "bf16"):
            if name in arguments.models:
                found[f"{name}, {precision}"] = row = measure(job, precision, arguments.rounds)
                print(f"{name}, {precision}: {row['share_of_the_core']:.0%} of the core", file=sys.stderr, flush=True)
    named = min(1 - row["time"]["no operator"] for row in found.values())
    return found, {f"operators account for at least {NAMED:.0%} of a step's time": named >= NAMED}


def main() -> None:
    """Measure and print the verdict."""
    parser = command(__doc__)
    add = parser.add_argument
    add("--features", type=Path, default=Path("data/features"), help="feature store (default data/features)")
    add("--rounds", type=int, default=7, help="steps of each model, in turn with the product (default 7)")
    add("--models", nargs="+", choices=MODELS, default=MODELS)
    arguments = options(parser, SHORT)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if arguments.features is None:
            write_corpus(folder / "features", SPEECH, 4 * BATCH, (1.0, 2.0))
        dist.init_process_group("gloo", init_method=f"file://{folder}/group", rank=0, world_size=1)
        try:
            result, claims = judge(arguments, arguments.features or folder / "features", folder)
        finally:
            dist.destroy_process_group()
    finish("arithmetic", result, claims, arguments)


if __name__ == "__main__":
    main()
