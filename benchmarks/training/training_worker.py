"""One rank of a measured training, started by benchmarks.training.training under torchrun: JOB STEPS WARMUP."""

import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

import torch.distributed as dist

from sonorant.files import read_json, write_json
from sonorant.training.distributed.ranks import join
from sonorant.training.precision import find_precision
from sonorant.training.recipe import Tensors
from sonorant.training.run_directory import RunDirectory
from sonorant.training.trainer import Trainer
from sonorant.training.worker import Job, recipe_of


def train(trainer: Trainer, steps: int, warmup: int) -> dict[str, Any]:
    """Run `warmup` and then `steps` steps with the engine; return the speed of the latter and how their time is
    spent. A step is what the training loop does every time: the optimizer step, the ledger's entry, the check
    whether a rank must stop. Not included: rows of metrics (except one), proofs, validation, checkpoints."""
    if trainer.trained.precision is None:
        find_precision(trainer.trained)
    stream = _loop(trainer)
    for _ in range(warmup):
        next(stream)
    dist.barrier()
    trainer.meter.restart()
    start, started = time.perf_counter(), time.process_time()
    for _ in range(steps):
        taken = next(stream)
    row = trainer.meter.read(trainer.step, trainer.epoch, *taken)
    seconds = time.perf_counter() - start  # a GPU has finished only now
    cpu = time.process_time() - started
    speed = row["speed/audio_seconds_per_second"]
    shares = {name: value for name, value in row.items() if name.startswith("time/") and name.count("/") == 1}
    return {
        "audio_seconds_per_second": speed,
        "audio_seconds_per_cpu_second": speed * seconds / (cpu * trainer.ranks.world_size),
        "mel_frames_per_second": speed / trainer.recipe.seconds_per_frame,
        "steps_per_second": steps / seconds,
        "chosen": trainer.trained.precision,
        "shares": {name.removeprefix("time/"): value for name, value in shares.items()},
    }


def _loop(trainer: Trainer) -> Iterator[tuple[Tensors, Tensors]]:
    asked = trainer.ranks.ask(False)
    for micro_batches, batches in trainer.steps():
        taken = trainer.take_step(micro_batches, batches)
        trainer.proof.ledger.note(trainer.trained.computed)
        with trainer.stopwatch("communication"):
            asked()
        asked = trainer.ranks.ask(False)
        yield taken


def feed(trainer: Trainer, micro_batches: int) -> float:
    """Micro-batches per second that this rank's loader makes without training."""
    plans = (trainer.load(trainer.recipe.plan.steps(epoch)) for epoch in range(1_000_000))
    batches = islice(chain.from_iterable(plans), micro_batches + 1)
    next(batches)
    start = time.perf_counter()
    for _ in batches:
        pass
    return micro_batches / (time.perf_counter() - start)


def main() -> None:
    file, steps, warmup = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    ranks, recipe = join(120.0), recipe_of(Job(**read_json(file)))
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(recipe, ranks, RunDirectory(Path(folder)), "benchmark")
        reached = train(trainer, steps, warmup)
        own = reached["steps_per_second"] * recipe.config.micro_batches_per_step / ranks.world_size
        reached["feeding"] = feed(trainer, 100) / own
    if ranks.first:
        write_json(file.with_name("reached.json"), reached)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
