import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from sonorant.plugins import model_kind
from sonorant.training.config import TrainConfig
from sonorant.training.step import TrainStep
from tasks.fingerprint import in_use
from testbed.tiny_training import RECIPES, settings, tiny_recipe
from tests.support.imports import ROOT
from tests.support.settings import project_settings
from tests.training.trainings import batches_of, logged, step_of, trainer_of

pytestmark = pytest.mark.usefixtures("alone")
BUDGETS = ("frames_per_micro_batch", "segments_per_micro_batch")


def of_the_project(kind: str, changes: dict[str, Any]) -> tuple[TrainConfig, int]:
    """Settings of params.yaml with `changes`, and the budget."""
    section = f"train_{kind}"
    train = project_settings()[section]
    train |= {key.split(".")[1]: value for key, value in changes.items() if key.startswith(f"{section}.")}
    [budget] = (train[name] for name in BUDGETS if name in train)
    return model_kind(kind).settings()(**train), budget


@pytest.mark.parametrize("file", [None, "corpora/recordings.yaml"])
@pytest.mark.parametrize("kind", RECIPES)
def test_the_project_trains_at_the_rate_that_it_sets_to_the_bit(kind: str, file: str | None) -> None:
    """A changed budget needs a new reference batch for its learning rate."""
    found = yaml.safe_load((ROOT / file).read_text(encoding="utf-8"))["families"].values() if file else [{}]
    changes = {key: value for family in found for key, value in family.items()}
    config, budget = of_the_project(kind, changes)
    assert config.learning_rate_batch == config.micro_batches_per_step * budget
    fixed = replace(config, learning_rate_batch=None)
    for step in (0, config.warmup_steps, config.steps // 2, config.steps - 1):
        assert config.learning_rate_at(step, budget) == fixed.learning_rate_at(step, budget)
    assert config.learning_rate_at(config.warmup_steps, budget) == config.learning_rate
    assert "learning_rate_batch" not in in_use(asdict(config)), "it names no other run directory"


@pytest.mark.parametrize(("times", "micro_batches"), [(4, 1), (1, 4)])
def test_four_times_the_batch_is_twice_the_rate(times: int, micro_batches: int) -> None:
    """By larger micro-batches or by more micro-batches."""
    config, budget = of_the_project("acoustic", {})
    larger = replace(config, micro_batches_per_step=micro_batches * config.micro_batches_per_step)
    for step in (0, 50, 700):
        assert larger.learning_rate_at(step, times * budget) == pytest.approx(2 * config.learning_rate_at(step, budget))
    assert replace(larger, learning_rate_batch=None).learning_rate_factor(times * budget) == 1.0


def weights_after(trained: TrainStep, steps: int = 2) -> torch.Tensor:
    for step in range(steps):
        trained.take(step, *batches_of(trained.recipe, step))
    return torch.cat([weight.detach().flatten() for weight in trained.recipe.model.parameters()])


def test_steps_are_taken_at_the_rate_of_the_batch(features: Path) -> None:
    """2 micro-batches of 4 segments: four times the reference batch."""
    followed, told = (
        step_of("vocoder", features, **one) for one in ({"learning_rate_batch": 2}, {"learning_rate": 4e-3})
    )
    assert torch.equal(weights_after(followed), weights_after(told))


def test_a_budget_that_was_found_moves_the_rate_and_the_log_says_so(
    features: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    auto = {"frames_per_micro_batch": "auto", "learning_rate_batch": 100, "steps": 3, "warmup_steps": 1}
    trainer = trainer_of(tiny_recipe("acoustic", features, **auto), tmp_path)
    assert trainer.train() == "finished"
    batch = 2 * (trainer.recipe.budget or 0)
    factor = math.sqrt(batch / 100)
    assert factor > 1.5
    rate = f"learning rate {2e-3 * factor:.4g}, {factor:.4g} times 0.002"
    line = f"acoustic: {rate}: batch size {batch}, learning_rate_batch 100"
    assert line in capsys.readouterr().out.splitlines()
    assert logged(tmp_path, "batch/learning_rate_factor") == pytest.approx([factor] * 3)
    assert logged(tmp_path, "train/learning_rate")[:2] == pytest.approx([2e-3 * factor] * 2)


def test_settings_that_move_no_rate_name_no_other_run_directory() -> None:
    def of(**changes: Any) -> dict[str, Any]:
        return in_use(settings("acoustic", **changes)[1])

    before = of()
    assert of(learning_rate_batch=1600) == of(learning_rate_batch=None) == before
    assert of(learning_rate_batch=1601) != before
    assert of(learning_rate_batch=1600, micro_batches_per_step=4) != of(micro_batches_per_step=4)
    auto = {"frames_per_micro_batch": "auto"}
    assert of(**auto, learning_rate_batch=1600) != of(**auto, learning_rate_batch=400) != of(**auto)


def test_gradients_are_clipped_after_unscaling(features: Path) -> None:
    """With a scale of 65536, as in a plain optimizer."""
    trained = step_of("acoustic", features, clip_norm=0.1)
    trained.scaler = torch.amp.GradScaler("cpu", init_scale=65536.0)
    trained.optimizers = {"acoustic": torch.optim.SGD(trained.recipe.model.parameters(), lr=1.0)}
    before = weights_after(trained, steps=0)
    trained.gradients(0, *batches_of(trained.recipe))
    trained.update(0)
    assert float((weights_after(trained, steps=0) - before).norm()) == pytest.approx(0.1, rel=1e-3)
