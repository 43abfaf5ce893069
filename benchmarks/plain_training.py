"""The recipe that training is compared with: the one that people write first.

    python -m benchmarks.plain_training JOB STEPS WARMUP

The same model, losses and data in torch's own layers, in fp32, with random batches of 32 padded to the longest, a plain
loader, AdamW with its defaults, one process with a thread a core. It averages no weights and writes no checkpoints: it
may be as fast as it likes. The alignment search is the compiled one.
"""

import sys
import time
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from sonorant.data.batches import Batch
from sonorant.data.plan import MicroBatch
from sonorant.files import read_json, write_json
from sonorant.layers.convnext import GELU, DepthwiseConv, Dropout
from sonorant.training.recipe import Recipe, weighted
from sonorant.training.worker import Job, recipe_of

BATCH = 32


class PlainDepthwise(nn.Conv1d):
    """torch's convolution in the place of `DepthwiseConv`."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        """(B, T, C) -> (B, T, C)."""
        return super().forward(input.transpose(1, 2)).transpose(1, 2)


def plain_layers(module: nn.Module) -> None:
    """Replace `module`'s faster layers by torch's own."""
    for name, child in module.named_children():
        if isinstance(child, DepthwiseConv):
            kernel = child.kernel_size[0]
            channels = (child.in_channels, child.out_channels)
            setattr(module, name, PlainDepthwise(*channels, kernel, padding=kernel // 2, groups=child.groups))
        elif isinstance(child, Dropout):
            setattr(module, name, nn.Dropout(child.p))
        elif isinstance(child, GELU):
            setattr(module, name, nn.GELU(approximate="tanh"))
        else:
            plain_layers(child)


def random_batches(recipe: Recipe, seed: int = 7) -> list[MicroBatch]:
    """An epoch of random batches; for the vocoder a random segment of each utterance that is long enough."""
    random = np.random.default_rng(seed)
    items = random.permutation(recipe.store.indices("train"))
    length = getattr(recipe.config, "segment_frames", 0)
    items = items[recipe.store.frames[items] >= length]
    starts = random.integers(0, recipe.store.frames[items] - length + 1) if length else None
    return [
        MicroBatch(0, number, items[first : first + BATCH], None if starts is None else starts[first : first + BATCH])
        for number, first in enumerate(range(0, len(items) - BATCH + 1, BATCH))
    ]


def train(recipe: Recipe, steps: int, warmup: int) -> dict[str, float]:
    """Take `warmup` and then `steps` steps; the speed of the latter."""
    phase = recipe.phases[0]
    plain_layers(phase.module)
    optimizer = torch.optim.AdamW(phase.module.parameters(), lr=recipe.config.learning_rate)
    plan = random_batches(recipe)
    if len(plan) < (needed := warmup + steps):
        raise SystemExit(f"{len(plan)} batches of {BATCH} utterances are too few for {needed} steps: lower --steps")
    dataset: Dataset[Batch] = recipe.dataset(plan)
    batches = enumerate(zip(plan, DataLoader(dataset, batch_size=None), strict=True))

    def take(count: int) -> float:
        """Frames that so many steps are computed from."""
        frames = 0.0
        for number, (micro_batch, batch) in islice(batches, count):
            counts = recipe.units(micro_batch)
            loss = weighted(phase, phase.module(batch, number), counts)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(phase.module.parameters(), recipe.config.clip_norm)
            optimizer.step()
            frames += counts["frames"]
        return frames

    take(warmup)
    start = time.perf_counter()
    frames = take(steps)
    seconds = time.perf_counter() - start
    return {
        "audio_seconds_per_second": frames * recipe.seconds_per_frame / seconds,
        "mel_frames_per_second": frames / seconds,
        "steps_per_second": steps / seconds,
    }


if __name__ == "__main__":
    file, steps, warmup = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    write_json(file.with_name("reached.json"), train(recipe_of(Job(**read_json(file))), steps, warmup))
