"""A baseline for training: the recipe that people write first.

    python -m benchmarks.training.plain_training JOB STEPS WARMUP [--precision bf16] [--random]

The same model, losses and data with torch's own layers and autograd, a plain loader, AdamW with its defaults, and one
process. It averages no weights, monitors nothing and writes no checkpoints, so nothing slows it. The alignment search
is the compiled one. Its batches are those of this project's plan; with --random they are 32 utterances drawn at
random and padded to the longest.
"""

import argparse
import contextlib
import time
from collections.abc import Iterator
from itertools import chain, count, islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader

from benchmarks.training.plain_layers import plain_layers, plain_losses
from sonorant.features.plan import MicroBatch
from sonorant.files import read_json, write_json
from sonorant.training.recipe import Recipe, weighted
from sonorant.training.worker import Job, recipe_of

BATCH = 32


def random_batches(recipe: Recipe, seed: int = 7) -> list[MicroBatch]:
    """An epoch of random batches; for the vocoder, a random segment of each long enough utterance."""
    random = np.random.default_rng(seed)
    items = random.permutation(recipe.store.indices("train"))
    length = getattr(recipe.config, "segment_frames", 0)
    items = items[recipe.store.frames[items] >= length]
    starts = random.integers(0, recipe.store.frames[items] - length + 1) if length else None
    return [
        MicroBatch(0, number, items[first : first + BATCH], None if starts is None else starts[first : first + BATCH])
        for number, first in enumerate(range(0, len(items) - BATCH + 1, BATCH))
    ]


def planned(recipe: Recipe, steps: int, random: bool) -> list[list[MicroBatch]]:
    if random:
        every = chain.from_iterable(random_batches(recipe, seed) for seed in count(7))
        return [[batch] for batch in islice(every, steps)]
    return list(islice(chain.from_iterable(recipe.plan.steps(epoch) for epoch in count()), steps))


def train(recipe: Recipe, steps: int, warmup: int, precision: str, random: bool) -> dict[str, float]:
    plain_losses()
    for phase in recipe.phases:
        plain_layers(phase.module)
    learning_rate = recipe.config.learning_rate
    optimizers = [torch.optim.AdamW(phase.module.parameters(), lr=learning_rate) for phase in recipe.phases]
    plan = planned(recipe, warmup + steps, random)
    dataset = recipe.dataset([batch for step in plan for batch in step])
    batches = iter(DataLoader(dataset, batch_size=None))

    def take(step: list[MicroBatch], number: int) -> float:
        """Run a step; return its number of frames."""
        counted = [recipe.units(micro_batch) for micro_batch in step]
        totals = {name: sum(counts[name] for counts in counted) for name in counted[0]}
        for optimizer in optimizers:
            optimizer.zero_grad()
        for _ in step:
            batch = next(batches)
            for phase in recipe.phases:
                with autocast(precision):
                    losses = phase.module(batch, number)
                weighted(phase, losses, totals).backward()
        for phase, optimizer in zip(recipe.phases, optimizers, strict=True):
            nn.utils.clip_grad_norm_(phase.module.parameters(), recipe.config.clip_norm)
            optimizer.step()
        return totals["frames"]

    numbered: Iterator[Any] = enumerate(plan)
    for number, step in islice(numbered, warmup):
        take(step, number)
    start, started = time.perf_counter(), time.process_time()
    frames = sum(take(step, number) for number, step in numbered)
    seconds, cpu = time.perf_counter() - start, time.process_time() - started
    return {
        "audio_seconds_per_second": frames * recipe.seconds_per_frame / seconds,
        "audio_seconds_per_cpu_second": frames * recipe.seconds_per_frame / cpu,
        "mel_frames_per_second": frames / seconds,
        "steps_per_second": steps / seconds,
    }


def autocast(precision: str) -> contextlib.AbstractContextManager[Any]:
    return torch.autocast("cpu", dtype=torch.bfloat16) if precision == "bf16" else contextlib.nullcontext()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("job", type=Path)
    parser.add_argument("steps", type=int)
    parser.add_argument("warmup", type=int)
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--random", action="store_true", help="random batches of 32")
    given = parser.parse_args()
    reached = train(recipe_of(Job(**read_json(given.job))), given.steps, given.warmup, given.precision, given.random)
    write_json(given.job.with_name("reached.json"), reached)


if __name__ == "__main__":
    main()
