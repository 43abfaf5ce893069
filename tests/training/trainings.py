"""Real trainings, in this process or others."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from sonorant.corpus.manifest import SPLITS
from sonorant.features.batches import Batch
from sonorant.features.feature_store import FeatureStore
from sonorant.features.plan import MicroBatch
from sonorant.features.store import StoreConfig
from sonorant.training import checkpoint
from sonorant.training.distributed.ranks import Ranks
from sonorant.training.recipe import Recipe
from sonorant.training.run_directory import RunDirectory, read_metrics
from sonorant.training.step import TrainStep
from sonorant.training.telemetry.stopwatch import Stopwatch
from sonorant.training.trainer import Trainer
from testbed.synthetic_corpus import TINY, write_corpus
from testbed.tiny_training import tiny_recipe
from tests.support.object_store import ObjectStore
from tests.support.stores import edit_index

ALONE = Ranks(0, 1, 0, torch.device("cpu"))


def trainer_of(recipe: Recipe, run: Path, fingerprint: str = "f", device: str = "cpu") -> Trainer:
    """A trainer in this process, in a new or existing run directory."""
    run.mkdir(parents=True, exist_ok=True)
    return Trainer(recipe, Ranks(0, 1, 0, torch.device(device)), RunDirectory(run), fingerprint)


def step_of(kind: str, features: Path, /, **changes: Any) -> TrainStep:
    return TrainStep(tiny_recipe(kind, features, **changes), ALONE, Stopwatch())


def batches_of(recipe: Recipe, step: int = 0) -> tuple[list[MicroBatch], Iterator[Batch]]:
    """Planned and loaded micro-batches of a step."""
    planned = recipe.plan.steps(0)[step]
    data = recipe.dataset(planned)
    return planned, (data[index] for index in range(len(planned)))


def gradients_of(trained: TrainStep) -> torch.Tensor:
    trained.gradients(0, *batches_of(trained.recipe))
    weights = [weight for phase in trained.recipe.phases for weight in phase.module.parameters()]
    return torch.cat([weight.grad.flatten() for weight in weights if weight.grad is not None])


def logged(run: Path, metric: str) -> list[float]:
    rows = (row["metrics"] for row in read_metrics(RunDirectory(run).metrics))
    return [row[metric] for row in rows if metric in row]


def newest_state(run: Path) -> dict[str, Any]:
    return checkpoint.load(checkpoint.existing(RunDirectory(run).checkpoints)[0])


def into_a_bucket(
    features: Path, folder: Path, store: ObjectStore, utterances: int, per_shard: int = 8
) -> tuple[Path, int]:
    """Write the corpus of `features` to an object store, read through a smaller cache, `folder / "cache"`.

    Return its folder and the cache's size in bytes.
    """
    sizes = [path.stat().st_size for path in Path(FeatureStore.open(features).place.store).glob("objects/*/*")]
    room, out = max(sizes) + sum(sizes) // 3, folder / "remote" / "features"
    assert room < sum(sizes)
    place, cache = f"s3://{store.bucket}/{folder.name}", str(folder / "cache")
    config = StoreConfig(place=place, utterances_per_shard=per_shard, cache=cache, cache_gib=room / 2**30)
    write_corpus(out, TINY, utterances, (1.0, 1.6), config=config)
    assert (out / "header.json").read_bytes() == (features / "header.json").read_bytes()
    return out, room


def with_splits(features: Path, copy: Path, split: Callable[[int, str], str]) -> Path:
    """A copy of the store with splits by `split(number, old split)`."""
    shutil.copytree(features, copy)
    edit_index(copy, lambda rows: [
        {**row, "split": SPLITS.index(split(n, SPLITS[row["split"]]))} for n, row in enumerate(rows)
    ])  # fmt: skip
    return copy


def assert_same(first: Any, second: Any, where: str = "") -> None:
    if isinstance(first, torch.Tensor):
        assert torch.equal(first, second), where
    elif isinstance(first, dict):
        assert first.keys() == second.keys(), where
        for key in first:
            assert_same(first[key], second[key], f"{where}.{key}")
    else:
        assert first == second, where


def assert_resumes(make: Callable[[Path], Trainer], folder: Path, step: int) -> Trainer:
    """Stop after a step, resume, and compare with the returned uninterrupted training."""
    whole = make(folder / "whole")
    assert whole.train() == "finished"
    cut = RunDirectory(Path(shutil.copytree(whole.run.path, folder / "cut")))
    for path in checkpoint.existing(cut.checkpoints):
        if path != checkpoint.path_of(cut.checkpoints, step):
            path.unlink()  # log and best are later
    resumed = make(cut.path)
    resumed.resume()
    assert resumed.step == step
    assert resumed.train() == "finished"
    assert_same(whole.state(), resumed.state())
    metrics = [(row["step"], name) for row in read_metrics(cut.metrics) for name in row["metrics"]]
    assert len(metrics) == len(set(metrics)), "a metric of a step was logged twice"
    return whole
