"""The learning rate follows the batch; fp16 has its own clipping norm."""

import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from sonorant.plugins import model_kind
from sonorant.training import memory
from sonorant.training.config import TrainConfig
from sonorant.training.step import TrainStep
from sonorant.training.trainer import Trainer
from tasks.fingerprint import in_use
from testbed.tiny_training import RECIPES, settings, tiny_recipe
from tests.support.imports import ROOT
from tests.support.settings import project_settings
from tests.support.trainings import Training
from tests.training.trainings import assert_resumes, batches_of, logged, newest_state, step_of, trainer_of

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


@pytest.mark.parametrize(("scaling", "factor"), [("square_root", 2.0), ("linear", 4.0)])
@pytest.mark.parametrize(("times", "micro_batches"), [(4, 1), (1, 4), (2, 2)])
def test_four_times_the_batch_is_twice_the_rate(times: int, micro_batches: int, scaling: str, factor: float) -> None:
    """By larger micro-batches or by more of them."""
    config, budget = of_the_project("acoustic", {"train_acoustic.learning_rate_scaling": scaling})
    larger = replace(config, micro_batches_per_step=micro_batches * config.micro_batches_per_step)
    for step in (0, 50, 700):
        assert larger.learning_rate_at(step, times * budget) == pytest.approx(
            factor * config.learning_rate_at(step, budget)
        )
    assert replace(larger, learning_rate_batch=None).learning_rate_factor(times * budget) == 1.0


@pytest.mark.parametrize(
    ("name", "value"), [("learning_rate_batch", 0), ("clip_norm_fp16", 0.0), ("clip_norm_fp16", -1.0)]
)
def test_what_makes_no_sense_is_refused_by_name(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=rf"^{name} must be .* or null, not {value}"):
        of_the_project("vocoder", {f"train_vocoder.{name}": value})


def weights_after(trained: TrainStep, steps: int = 2) -> torch.Tensor:
    for step in range(steps):
        trained.take(step, *batches_of(trained.recipe, step))
    return torch.cat([weight.detach().flatten() for weight in trained.recipe.model.parameters()])


@pytest.mark.parametrize(("kind", "own"), [("acoustic", 400), ("vocoder", 2)])
def test_steps_are_taken_at_the_rate_of_the_batch(kind: str, own: int, features: Path) -> None:
    """2 micro-batches of 800 frames or of 4 segments: four times the reference batch."""
    followed, told = step_of(kind, features, learning_rate_batch=own), step_of(kind, features, learning_rate=4e-3)
    assert followed.config.learning_rate == 2e-3
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
    line = f"acoustic: {rate}: a step's batch is {batch}, learning_rate_batch 100 (square_root)"
    assert line in capsys.readouterr().out.splitlines()
    assert logged(tmp_path, "batch/learning_rate_factor") == pytest.approx([factor] * 3)
    used = [group["lr"] for group in trainer.trained.optimizers["acoustic"].param_groups]
    assert logged(tmp_path, "train/learning_rate")[:2] == pytest.approx([2e-3 * factor] * 2)
    assert logged(tmp_path, "train/learning_rate")[2] == used[0] == used[1]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"learning_rate_batch": 1600}, "learning rate 0.002: a step's batch is 1600, the learning_rate_batch"),
        ({}, "learning rate 0.002, whatever the batch"),
    ],
)
def test_a_rate_that_stays_is_said_too(
    changes: dict[str, Any], words: str, features: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trainer_of(tiny_recipe("acoustic", features, **changes, steps=1), tmp_path).train()
    assert f"acoustic: {words}" in capsys.readouterr().out.splitlines()
    assert logged(tmp_path, "batch/learning_rate_factor") == [1.0]


def test_a_resumed_run_keeps_its_rate_where_memory_allows_another_batch(
    features: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = iter([400, 700, 700])

    def find(trained: TrainStep, share: float) -> int:
        trained.recipe.budget = next(found)
        return trained.recipe.budget

    monkeypatch.setattr(memory, "find_budget", find)
    auto = {"frames_per_micro_batch": "auto", "learning_rate_batch": 200}

    def make(folder: Path) -> Trainer:
        return trainer_of(tiny_recipe("acoustic", features, **auto), folder)

    assert_resumes(make, tmp_path, step=6)
    assert next(found) == 700, "it was looked for once"
    assert logged(tmp_path / "cut", "batch/learning_rate_factor") == [2.0] * 8
    assert newest_state(tmp_path / "cut")["budget"] == 400


def test_the_rate_is_the_same_on_any_number_of_processes(features: Path, tmp_path: Path) -> None:
    def trained(processes: int) -> tuple[list[float], list[float]]:
        changes = {"steps": 4, "dropout": 0.0, "learning_rate_batch": 400}
        training = Training("acoustic", features, tmp_path / str(processes), **changes)
        said = training.finish(processes)
        assert said.count("acoustic: learning rate 0.004, 2 times 0.002") == 1, said
        return logged(training.run.path, "train/learning_rate"), logged(training.run.path, "train/loss")

    (rates, losses), (same_rates, same_losses) = trained(1), trained(2)
    assert rates == same_rates and losses == pytest.approx(same_losses, rel=1e-4)


def test_settings_that_move_no_rate_name_no_other_run_directory() -> None:
    def of(**changes: Any) -> dict[str, Any]:
        return in_use(settings("acoustic", **changes)[1])

    before = of()
    assert of(learning_rate_batch=1600) == of(learning_rate_batch=None, learning_rate_scaling="linear") == before
    assert of(learning_rate_batch=1601) != before
    assert of(learning_rate_batch=1600, micro_batches_per_step=4) != of(micro_batches_per_step=4)
    assert of(learning_rate_batch=400) != of(learning_rate_batch=400, learning_rate_scaling="linear")
    auto = {"frames_per_micro_batch": "auto"}
    assert of(**auto, learning_rate_batch=1600) != of(**auto, learning_rate_batch=400) != of(**auto)
    assert of(clip_norm_fp16=0.5) == of(clip_norm_fp16=None) == before, "it is for a precision that is not this one"
    for precision in ("fp16", "auto"):
        assert of(precision=precision, clip_norm_fp16=0.5) != of(precision=precision)
        assert of(precision=precision, clip_norm_fp16=None) == before | {"precision": precision}


@pytest.mark.parametrize(
    ("precision", "clip_norm_fp16", "norm"),
    [("fp16", 0.01, 0.01), ("fp16", None, 0.1), ("bf16", 0.01, 0.1), ("fp32", 0.01, 0.1)],
)
def test_fp16_clips_by_its_own_norm_and_only_fp16(
    precision: str, clip_norm_fp16: float | None, norm: float, features: Path
) -> None:
    """With a scale of 65536 the unscaled gradient is clipped, as a plain optimizer shows."""
    trained = step_of("acoustic", features, clip_norm=0.1, clip_norm_fp16=clip_norm_fp16)
    trained.scaler = torch.amp.GradScaler("cpu", init_scale=65536.0)
    trained.optimizers = {"acoustic": torch.optim.SGD(trained.recipe.model.parameters(), lr=1.0)}
    before = weights_after(trained, steps=0)
    trained.gradients(0, *batches_of(trained.recipe))
    trained.precision = precision  # CPUs do not train in fp16
    trained.update(0)
    moved = weights_after(trained, steps=0) - before
    assert float(moved.norm()) == pytest.approx(norm, rel=1e-3)
