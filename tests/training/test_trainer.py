"""The loop itself: what it refuses, and that it runs on a GPU where there is one."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from sonorant.errors import SonorantError
from sonorant.families.parallel.training import AcousticRecipe, VocoderRecipe
from sonorant.training import checkpoint
from sonorant.training.distributed.ranks import Ranks
from sonorant.training.run_directory import RunDirectory, read_metrics
from sonorant.training.trainer import Trainer
from tests.training.conftest import settings


def trainer(kind: str, changes: dict[str, Any], features: Path, run: Path, device: str = "cpu") -> Trainer:
    model, train = settings(kind, **changes)
    recipe = AcousticRecipe(model, train, features) if kind == "acoustic" else VocoderRecipe(model, train, features)
    run.mkdir(exist_ok=True)
    return Trainer(recipe, Ranks(0, 1, 0, torch.device(device)), RunDirectory(run), "f")


@pytest.mark.parametrize("log_every", [1, 100])
def test_a_diverged_training_ends_in_one_line_and_saves_nothing(
    log_every: int, features: Path, tmp_path: Path, alone: None
) -> None:
    diverged = trainer("acoustic", {"log_every": log_every}, features, tmp_path / "run")
    with torch.no_grad():
        next(diverged.recipe.model.parameters()).fill_(math.nan)
    with pytest.raises(
        SonorantError, match=r"step \d: training of the acoustic has diverged .*train_acoustic.learning_rate"
    ):
        diverged.train()
    assert checkpoint.existing(tmp_path / "run" / "checkpoints") == []


def test_a_sample_is_seen_only_when_it_is_whole(features: Path, tmp_path: Path, alone: None) -> None:
    """What carries samples to MLflow takes each once, whenever it sees it."""
    model, train = settings("vocoder", steps=4)
    samples, seen = tmp_path / "samples", []

    class Watched(VocoderRecipe):
        def write_sample(self, model: torch.nn.Module, folder: Path) -> None:
            super().write_sample(model, folder)
            seen.append(list(samples.glob("step-*")))

    Trainer(Watched(model, train, features), Ranks(0, 1, 0, torch.device("cpu")), RunDirectory(tmp_path), "f").train()
    assert seen == [[]]
    assert sorted(path.name for path in (samples / "step-000004").iterdir()) == ["mel.npz", "sample.wav"]


@pytest.fixture
def alone_on_a_gpu(tmp_path: Path) -> Iterator[None]:
    """This process as a group of its own, as `join` makes them."""
    if not torch.cuda.is_available():
        pytest.skip("there is no GPU here")
    dist.init_process_group("cpu:gloo,cuda:nccl", init_method=f"file://{tmp_path}/group", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize(
    ("kind", "changes"),
    [("acoustic", {}), ("acoustic", {"decoder": "flow"}), ("vocoder", {}), ("vocoder", {"adversarial": True})],
)
def test_everything_trains_validates_and_resumes_on_a_gpu(
    kind: str, changes: dict[str, Any], precision: str, features: Path, tmp_path: Path, alone_on_a_gpu: None
) -> None:
    changes = {**changes, "precision": precision}
    first = trainer(kind, changes, features, tmp_path / "run", "cuda:0")
    assert first.train() == "finished"
    for row in read_metrics(tmp_path / "run" / "metrics.jsonl"):
        assert all(math.isfinite(value) for name, value in row["metrics"].items() if "gradient" not in name), row
    again = trainer(kind, changes, features, tmp_path / "run", "cuda:0")
    again.resume()
    assert again.step == 8
    assert all(
        torch.equal(a, b) for a, b in zip(first.trained.ema.parameters(), again.trained.ema.parameters(), strict=True)
    )
