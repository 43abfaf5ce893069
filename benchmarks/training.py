"""How fast training is and where a step's time goes: audio-seconds per second, shares of a step, padding.

    python -m benchmarks.training --features data/features

Trains both models of params.yaml for a few steps, alone on this machine, with the engine that the stages use. Beside it, in
alternation, a plain recipe of equal size: fp32, batches of random utterances padded to the longest, one loader. The claims are
ratios and fractions, so they hold on any machine.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from benchmarks.report import finish, save_option
from sonorant.data.plan import MicroBatch, Plan, padding_waste
from sonorant.models.acoustic import AcousticConfig
from sonorant.models.vocoder import VocoderConfig
from sonorant.training.acoustic import AcousticRecipe, AcousticTrainConfig
from sonorant.training.ranks import Ranks
from sonorant.training.recipe import Recipe
from sonorant.training.run_directory import RunDirectory
from sonorant.training.trainer import Trainer
from sonorant.training.vocoder import VocoderRecipe, VocoderTrainConfig
from tasks import params


def main() -> None:
    """Measure and print the verdict."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--features", type=Path, default=Path("data/features"), help="feature store; `dvc repro features` makes it")
    parser.add_argument("--steps", type=int, default=12, help="steps of each measurement (default 12)")
    parser.add_argument("--rounds", type=int, default=3, help="how often the two recipes take turns (default 3)")
    save_option(parser)
    arguments = parser.parse_args()
    acoustic = (asdict(params.load("acoustic", AcousticConfig)), asdict(params.load("train_acoustic", AcousticTrainConfig)))
    vocoder = (asdict(params.load("vocoder", VocoderConfig)), asdict(params.load("train_vocoder", VocoderTrainConfig)))

    with tempfile.TemporaryDirectory() as folder:
        dist.init_process_group("gloo", init_method=f"file://{folder}/group", rank=0, world_size=1)
        ours = _trainer(AcousticRecipe(*acoustic, arguments.features), Path(folder) / "ours")
        plain_recipe = AcousticRecipe(
            acoustic[0], {**acoustic[1], "precision": "fp32", "micro_batches_per_step": 1}, arguments.features
        )
        plain_recipe.plan = Plan(1, lambda epoch: _random_batches(plain_recipe, epoch))
        plain = _trainer(plain_recipe, Path(folder) / "plain")
        speaker = _trainer(VocoderRecipe(*vocoder, arguments.features), Path(folder) / "vocoder")
        rows: dict[str, list[dict[str, Any]]] = {"acoustic": [], "plain": [], "vocoder": []}
        for _ in range(arguments.rounds):
            for name, trainer in (("acoustic", ours), ("plain", plain), ("vocoder", speaker)):
                rows[name].append(measure(trainer, arguments.steps))
        dist.destroy_process_group()

    result: dict[str, Any] = {name: summary(measured) for name, measured in rows.items()}
    store = ours.recipe.store  # type: ignore[attr-defined]
    plan = ours.recipe.plan.micro_batches(0)
    result["padding_waste"] = {
        "plan": round(padding_waste(plan, store.frames), 4),
        "random": round(padding_waste(_random_batches(plain_recipe, 0), store.frames), 4),
    }
    ratios = [
        a["audio_seconds_per_second"] / b["audio_seconds_per_second"] for a, b in zip(rows["acoustic"], rows["plain"], strict=True)
    ]
    result["ratio_to_plain"] = round(float(np.median(ratios)), 2)
    claims = {
        "the plan pads less than 5 %": result["padding_waste"]["plan"] < 0.05,
        "waiting for data takes less than 5 % of a step": max(result[name]["shares"]["data"] for name in ("acoustic", "vocoder"))
        < 0.05,
        "faster than the plain recipe": result["ratio_to_plain"] > 1.0,
    }
    finish("training", result, claims, arguments.save)


def measure(trainer: Trainer, steps: int) -> dict[str, Any]:
    """Take `steps` optimizer steps and return audio-seconds per second, steps per second and the shares of their time."""
    stream = trainer.steps()
    trainer.take_step(*next(stream))
    trainer.stopwatch.read()
    start = time.perf_counter()
    frames = 0.0
    for _ in range(steps):
        micro_batches, batches = next(stream)
        trainer.take_step(micro_batches, batches)
        frames += sum(trainer.recipe.units(batch)["frames"] for batch in micro_batches)
    seconds = time.perf_counter() - start
    _, shares = trainer.stopwatch.read()
    return {
        "audio_seconds_per_second": frames * trainer.recipe.seconds_per_frame / seconds,
        "steps_per_second": steps / seconds,
        "shares": shares,
    }


def summary(measured: list[dict[str, Any]]) -> dict[str, Any]:
    """Medians over the rounds."""
    shares = {
        name: round(float(np.median([row["shares"].get(name, 0.0) for row in measured])), 4) for name in measured[0]["shares"]
    }
    medians = {
        key: round(float(np.median([row[key] for row in measured])), 2) for key in ("audio_seconds_per_second", "steps_per_second")
    }
    return {**medians, "shares": shares}


def _trainer(recipe: Recipe, folder: Path) -> Trainer:
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    return Trainer(recipe, Ranks(0, 1, 0, torch.device("cpu")), RunDirectory(folder), "benchmark")


def _random_batches(recipe: AcousticRecipe, epoch: int, size: int = 32) -> list[MicroBatch]:
    order = np.random.default_rng([7, epoch]).permutation(recipe.items)
    return [MicroBatch(epoch, number, order[first : first + size]) for number, first in enumerate(range(0, len(order), size))]


if __name__ == "__main__":
    main()
