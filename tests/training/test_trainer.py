"""The loop itself: what it refuses, and that it runs on a GPU where there is one."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch

from sonorant.errors import SonorantError
from sonorant.families.parallel.training import VocoderRecipe
from sonorant.training import checkpoint
from sonorant.training.run_directory import read_metrics
from tests.support.tiny_training import settings, tiny_recipe
from tests.training.trainings import assert_same, trainer_of


@pytest.mark.parametrize("log_every", [1, 100])
def test_divergence_is_one_line_and_saves_nothing(log_every: int, features: Path, tmp_path: Path, alone: None) -> None:
    diverged = trainer_of(tiny_recipe("acoustic", features, log_every=log_every), tmp_path / "run")
    with torch.no_grad():
        next(diverged.recipe.model.parameters()).fill_(math.nan)
    words = r"step \d: training of the acoustic has diverged .*train_acoustic.learning_rate"
    with pytest.raises(SonorantError, match=words):
        diverged.train()
    assert checkpoint.existing(diverged.run.checkpoints) == []


def test_a_sample_is_seen_only_when_it_is_whole(features: Path, tmp_path: Path, alone: None) -> None:
    """What carries samples to MLflow takes each once, whenever it sees it."""
    samples, seen = tmp_path / "samples", []

    class Watched(VocoderRecipe):
        def write_sample(self, model: torch.nn.Module, folder: Path) -> None:
            super().write_sample(model, folder)
            seen.append(list(samples.glob("step-*")))

    trainer_of(Watched(*settings("vocoder", steps=4), features), tmp_path).train()
    assert seen == [[]]
    assert sorted(path.name for path in (samples / "step-000004").iterdir()) == ["mel.npz", "sample.wav"]


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize(
    ("kind", "changes"),
    [("acoustic", {}), ("acoustic", {"decoder": "flow"}), ("vocoder", {}), ("vocoder", {"adversarial": True})],
)
def test_everything_trains_validates_and_resumes_on_a_gpu(
    kind: str, changes: dict[str, Any], precision: str, features: Path, tmp_path: Path, alone_on_a_gpu: None
) -> None:
    first, again = (
        trainer_of(tiny_recipe(kind, features, **changes, precision=precision), tmp_path / "run", device="cuda:0")
        for _ in range(2)
    )
    assert first.train() == "finished"
    for row in read_metrics(first.run.metrics):
        assert all(math.isfinite(value) for name, value in row["metrics"].items() if "gradient" not in name), row
    again.resume()
    assert again.step == 8
    assert_same(dict(first.trained.ema.named_parameters()), dict(again.trained.ema.named_parameters()))
