"""What bounds a training step on one GPU?

Measures kernels, gaps and waits by region and operator, and the step as a CUDA graph.

    python -m benchmarks gpu_trace --case acoustic-bf16 ceilings --save

Models have the sizes of `gpu_check`'s speeds; the corpus is synthetic. `--save` keeps the saved figures of cases that
are not run. `--dry-run` runs on a CPU with tiny models; its figures mean nothing.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile, record_function

from benchmarks.gpu.gpu_training import alone, settle
from benchmarks.gpu.gpu_voices import device_of
from benchmarks.gpu.kernel_trace import analysed
from benchmarks.report import RESULTS, command, finish, options
from sonorant.families.parallel import acoustic_training as acoustic
from sonorant.families.parallel.acoustic import AcousticModel, RegressionDecoder
from sonorant.families.parallel.prosody import ProsodyPredictor
from sonorant.features.batches import Batch
from sonorant.layers.discriminators import Discriminators
from sonorant.training import waveform
from sonorant.training.checkpoint import Ema
from sonorant.training.recipe import weighted
from sonorant.training.step import totals_of
from sonorant.training.sub_batches import release
from sonorant.training.telemetry.stopwatch import Stopwatch
from sonorant.training.trainer import Trainer
from testbed.synthetic_corpus import SPEECH, write_corpus

SHORT = {"dry_run": True, "case": ["ceilings", "acoustic-bf16", "vocoder-bf16"]}
Found = dict[str, Any]
Work = Callable[[], Any]
CASES: dict[str, tuple[str, Found]] = {
    "acoustic-bf16": ("acoustic", {"precision": "bf16"}),
    "acoustic-fp32": ("acoustic", {"precision": "fp32"}),
    "acoustic-fp16": ("acoustic", {"precision": "fp16"}),
    "vocoder-bf16": ("vocoder", {"precision": "bf16"}),
    "vocoder-fp32": ("vocoder", {"precision": "fp32"}),
    "vocoder-adversarial-bf16": ("vocoder", {"precision": "bf16", "adversarial": True}),
}
REGIONS = [
    (AcousticModel, "encode", "encoder"),
    (acoustic, "align", "search"),
    (AcousticModel, "expand", "expansion"),
    (RegressionDecoder, "errors", "decoder"),
    (ProsodyPredictor, "errors", "predictor"),
    (waveform.GeneratorLosses, "copy", "vocoder"),
    (waveform, "mel_distance", "spectral losses"),
    (waveform, "spectral_distance", "spectral losses"),
    (Discriminators, "forward", "discriminators"),
    (nn.utils, "clip_grad_norm_", "clip"),
    (Ema, "update_parameters", "EMA"),
]
"""Functions named in a trace, in addition to the stopwatch's phases and the optimizer's step."""
TRACED, HELD = 3, 8
"""Number of steps in a trace, and number of batches kept on the device."""


def main() -> None:
    parser = command(__doc__)
    names = [*OTHERS, *CASES]
    parser.add_argument("--case", nargs="+", choices=names, default=names, help="only these (default all)")
    parser.add_argument("--what", nargs="+", choices=MEASURES, default=[*MEASURES], help="of trainings (default all)")
    parser.add_argument("--hours", type=float, default=0.5, help="length of the synthetic corpus (default 0.5)")
    parser.add_argument("--steps", type=int, default=14, help="steps that are timed (default 14)")
    parser.add_argument("--dry-run", action="store_true", help="go through the script on a CPU; results mean nothing")
    arguments = options(parser, SHORT)
    device = device_of("gpu_trace", arguments)
    saved = RESULTS / "gpu_trace.json"
    result: Found = json.loads(saved.read_text(encoding="utf-8"))["result"] if arguments.save and saved.exists() else {}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        if CASES.keys() & set(arguments.case):
            torch.set_num_threads(1)  # 16 threads take minutes for these small arrays
            hours = 0.05 if arguments.dry_run else arguments.hours
            write_corpus(folder / "speech", SPEECH, round(hours * 3600 / 5.75), (1.5, 10))
        for case in arguments.case:
            run = OTHERS[case] if case in OTHERS else partial(training_case, case, folder, arguments)
            found = attempted(partial(run, device))
            result[case] = result.get(case, {}) | found
            print(json.dumps({case: found}), file=sys.stderr, flush=True)  # kept if the time runs out
    finish("gpu_trace", result, {}, arguments)


def attempted(work: Callable[[], Found]) -> Found:
    """Result of `work`, or the reason why it failed, so that other cases continue."""
    began = time.perf_counter()
    try:
        found = work()
    except Exception as error:
        first = error.__context__ or error  # a failed capture hides its cause
        found = {"failed": f"{type(first).__name__}: {first}"[:300]}
    return found | {"seconds": round(time.perf_counter() - began, 1)}


def timed(work: Work, times: int) -> tuple[float, float]:
    """Milliseconds per run of `work`, and the host's part of it."""
    settle()
    began = time.perf_counter()
    for _ in range(times):
        work()
    host = time.perf_counter() - began
    settle()
    return round(1000 * (time.perf_counter() - began) / times, 3), round(1000 * host / times, 3)


class Fixed:
    """Training steps of one batch without DistributedDataParallel and the loader, for a CUDA graph."""

    def __init__(self, trainer: Trainer, held: list[tuple[list[Any], Batch]]) -> None:
        """`held`: batches on the device; the largest one is used."""
        self.trainer, self.held = trainer, held
        self.micro_batches, self.batch = max(held, key=lambda one: sum(value.numel() for value in one[1].values()))
        self.trained, self.phases = trainer.trained, trainer.recipe.phases
        self.optimizers = {
            phase.name: torch.optim.AdamW(
                phase.module.parameters(), lr=1e-5, fused=True, capturable=torch.cuda.is_available()
            )
            for phase in self.phases
        }
        self.totals = totals_of(trainer.recipe, self.micro_batches)
        self.on_gpu = trainer.ranks.device.type == "cuda"

    def step(self) -> None:
        batch = dict(self.batch)
        for phase in self.phases:
            with self.trained.autocast():
                losses = phase.module(batch, self.trainer.step)
            parameters = list(phase.module.parameters())
            gradients = torch.autograd.grad(weighted(phase, losses, self.totals), parameters)
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter.grad = gradient
        self.update()

    @torch.no_grad()
    def update(self) -> None:
        for phase in self.phases:
            nn.utils.clip_grad_norm_(phase.module.parameters(), 1.0)
            self.optimizers[phase.name].step()
        average: list[Tensor] = list(self.trained.ema.module.parameters())
        torch._foreach_lerp_(average, list(self.trainer.recipe.model.parameters()), 0.001)

    def both(self, work: Work, steps: int) -> Found:
        """Milliseconds of `work`, called and as a CUDA graph."""
        first, _ = timed(work, 1)
        timed(work, 2)
        wall, host = timed(work, steps)
        found = {"first_ms": first, "ms": wall, "host_ms": host}
        if not self.on_gpu:
            return found
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(2):
                work()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            work()
        timed(graph.replay, 3)
        return found | {"graph_ms": timed(graph.replay, steps)[0]}


def training_case(name: str, folder: Path, given: argparse.Namespace, device: torch.device) -> Found:
    kind, changes = CASES[name]
    if device.type == "cpu":
        changes = changes | {"precision": "bf16"}
    found: Found = {}
    with alone(folder / name, kind, folder, device, **changes) as (trainer, _):
        planned = planned_steps(trainer, 1000, HELD)
        batches = trainer.load(planned)
        held = [(step, {key: value.to(device) for key, value in next(batches).items()}) for step in planned]
        for what in given.what:
            if what != "search" or kind == "acoustic":
                release(device)
                steps = given.steps if device.type == "cuda" else 2
                found[what] = attempted(partial(MEASURES[what], Fixed(trainer, held), steps))
    return found


def speed(fixed: Fixed, steps: int) -> Found:
    """Speed of steps of batches on the device, on the first and later occurrences of their shapes, and of batches
    from the loader."""
    trainer, planned = fixed.trainer, [step for step, _ in fixed.held]
    found: Found = {"parameters": sum(one.numel() for one in trainer.recipe.model.parameters())}
    takes = [partial(take_held, trainer, *one) for one in fixed.held]
    takes[-1]()
    visits = [[timed(take, 1)[0] for take in takes[:-1]] for _ in range(2)]
    found["first_visit_ms"], found["second_visit_ms"] = (round(fmean(one), 2) for one in visits)
    wall, host = timed(lambda: [take() for take in takes], max(1, steps // len(takes)))
    found["held"] = of_steps(trainer, planned, wall) | {"host_ms": round(host / len(takes), 2)}
    stream, taken = trainer.steps(), list[list[Any]]()

    def work() -> None:
        micro_batches, batches = next(stream)
        taken.append(micro_batches)
        trainer.take_step(micro_batches, batches)

    timed(work, 5)
    wall, _ = timed(work, steps)
    found["streamed"] = of_steps(trainer, taken[-steps:], steps * wall)
    ahead = planned_steps(trainer, 2000, 4 * steps)
    batches = trainer.load(ahead)
    next(batches)
    return found | {"loader_ms": timed(partial(next, batches), len(ahead) - 1)[0]}


def planned_steps(trainer: Trainer, epoch: int, count: int) -> list[list[Any]]:
    steps: list[list[Any]] = []
    while len(steps) < count:
        steps += trainer.recipe.plan.steps(epoch)
        epoch += 1
    return steps[:count]


def take_held(trainer: Trainer, micro_batches: list[Any], batch: Batch) -> None:
    trainer.trained.take(trainer.step, micro_batches, iter([batch]))
    trainer.step += 1


def of_steps(trainer: Trainer, steps: list[list[Any]], milliseconds: float) -> Found:
    frames = sum(trainer.recipe.units(batch)["frames"] for step in steps for batch in step)
    found = {"step_ms": round(milliseconds / len(steps), 2), "frames": round(frames / len(steps))}
    return found | {"frames_per_s": round(1000 * frames / milliseconds)}


class Named(Stopwatch):
    """Names the phases of a step in a trace."""

    @contextmanager
    def __call__(self, phase: str) -> Iterator[None]:
        with record_function(phase), super().__call__(phase):
            yield


def traced(fixed: Fixed, _: int) -> Found:
    trainer, taken = fixed.trainer, list[list[Any]]()

    def named(region: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **keywords: Any) -> Any:
            with record_function(region):
                return function(*arguments, **keywords)

        return call

    device = trainer.ranks.device
    with ExitStack() as stack:
        for owner, attribute, region in REGIONS:
            stack.enter_context(patch.object(owner, attribute, named(region, getattr(owner, attribute))))
        stack.enter_context(patch.object(trainer.trained, "stopwatch", Named(device)))
        stream = trainer.steps()
        for _ in range(5):
            trainer.take_step(*next(stream))
        settle()
        kinds = [ProfilerActivity.CPU, *[ProfilerActivity.CUDA] * (device.type == "cuda")]
        with profile(activities=kinds) as profiler:
            for _ in range(TRACED):
                micro_batches, batches = next(stream)
                taken.append(micro_batches)
                trainer.take_step(micro_batches, batches)
            settle()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        profiler.export_chrome_trace(str(path))
        events = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    frames = sum(trainer.recipe.units(batch)["frames"] for step in taken for batch in step)
    return {"frames": round(frames / TRACED)} | analysed(events, TRACED)


def search(fixed: Fixed, steps: int) -> Found:
    batch = fixed.batch
    prior_BNM = torch.randn(*batch["tokens"].shape[:2], batch["mel"].shape[2], device=batch["mel"].device)
    lengths = batch["token_lengths"], batch["mel_lengths"]
    return fixed.both(lambda: acoustic.align(prior_BNM, batch["mel"], *lengths), steps)


def step(fixed: Fixed, steps: int) -> Found:
    frames = sum(fixed.trainer.recipe.units(batch)["frames"] for batch in fixed.micro_batches)
    return {"frames": round(frames)} | fixed.both(fixed.step, steps)


MEASURES: dict[str, Callable[[Fixed, int], Found]] = {"speed": speed, "step": step, "search": search, "trace": traced}
"""Measurements of a training. The trace is last, because a profiler may slow those after it."""


def ceilings(device: torch.device) -> Found:
    """The device's limits: a copy, in bytes read and written, and a bfloat16 matrix product."""
    size = 8192 if device.type == "cuda" else 256
    source = torch.randn(size * size * 4, device=device)
    target, matrix = torch.empty_like(source), source[: size * size].view(size, size).bfloat16()
    timed(lambda: matrix @ matrix, 3)
    copy, product = timed(lambda: target.copy_(source), 20)[0], timed(lambda: matrix @ matrix, 10)[0]
    return {
        "copy_tb_per_s": round(8e-9 * source.numel() / copy, 2),
        "bf16_tflop_per_s": round(2e-9 * size**3 / product),
    }


OTHERS: dict[str, Callable[[torch.device], Found]] = {"ceilings": ceilings}


if __name__ == "__main__":
    main()
