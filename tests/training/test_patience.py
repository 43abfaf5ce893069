"""Early stopping: the same step and weights in every run."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sonorant.errors import SonorantError
from sonorant.features.plan import MicroBatch
from sonorant.files import read_json
from sonorant.training import checkpoint
from sonorant.training.patience import Patience
from sonorant.training.step import TrainStep
from sonorant.training.validation import one_by_one
from tasks.fingerprint import in_use
from testbed.synthetic_corpus import TINY, write_corpus
from testbed.tiny_training import settings, tiny_recipe
from tests.support.trainings import Training
from tests.training.trainings import assert_resumes, assert_same, logged, newest_state, trainer_of

EARLY: dict[str, Any] = {
    "patience": 2, "steps": 200, "validate_every": 3, "checkpoint_every": 4, "learning_rate": 3e-2, "warmup_steps": 20,
    "ema_decay": 0.2,
}  # fmt: skip
"""The learning rate rises until the loss does."""


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Enough validation utterances for an interval."""
    features = tmp_path_factory.mktemp("many") / "features"
    write_corpus(features, TINY, 100, (0.5, 0.8))
    return features


def test_a_training_that_ended_early_and_is_resumed_ends_with_the_same_bits(
    many: Path, tmp_path: Path, alone: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint, "KEEP", 100)
    whole = assert_resumes(lambda run: trainer_of(tiny_recipe("acoustic", many, **EARLY), run), tmp_path, 4)
    assert 4 < whole.step < 200 and whole.step % 3 == 0, "it ended at a validation"
    assert whole.patience is not None and whole.patience.best_step < whole.step
    best = checkpoint.load(whole.run.checkpoints / checkpoint.BEST)
    assert_same(best["ema"], {name: value.cpu() for name, value in whole.trained.ema.module.state_dict().items()})
    assert best["loss"] == min(logged(whole.run.path, "validation/loss"))
    said = capsys.readouterr().out
    assert f"ended at step {whole.step} of 200: 2 consecutive validations were not significantly better" in said
    assert f"the model has the weights of step {best['step']}" in said


def test_the_weights_of_the_lowest_loss_are_kept_not_the_last(
    many: Path, tmp_path: Path, alone: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    averages: dict[int, Any] = {}

    def scripted(trained: TrainStep, plan: list[MicroBatch], step: int) -> tuple[dict[str, float], list[float]]:
        averages[step] = {name: value.clone() for name, value in trained.ema.module.state_dict().items()}
        loss = {3: 5.0, 6: 4.0, 9: 3.0, 12: 3.5, 15: 3.6}[step]
        return {"loss": loss}, [loss] * len(plan)

    monkeypatch.setattr("sonorant.training.trainer.validation_losses", scripted)
    trained = trainer_of(tiny_recipe("acoustic", many, **EARLY), tmp_path / "run")
    assert trained.train() == "finished" and trained.step == 15
    kept = newest_state(trained.run.path)
    assert kept["patience"]["best_step"] == 9 and kept["best_loss"] == 3.0
    assert_same(averages[9], dict(trained.trained.ema.module.state_dict()))
    assert any(not torch.equal(averages[15][name], value) for name, value in averages[9].items())
    again = trainer_of(tiny_recipe("acoustic", many, **EARLY), trained.run.path)
    assert again.train() == "finished" and again.step == 15, "what has ended stays ended"
    assert_same(averages[9], dict(again.trained.ema.module.state_dict()))


@pytest.mark.long
def test_two_processes_end_at_the_step_of_one_and_the_run_says_why(many: Path, tmp_path: Path, alone: None) -> None:
    one = trainer_of(tiny_recipe("acoustic", many, **EARLY), tmp_path / "one")
    one.train()
    training = Training("acoustic", many, tmp_path / "two", **EARLY)
    training.finish(2)
    state, model = newest_state(training.run.path), read_json(Path(training.job.out) / "model.json")
    assert one.patience is not None
    assert (state["step"], state["patience"]["best_step"]) == (one.step, one.patience.best_step)
    status = training.run.status()
    assert status["state"] == "finished" and status["step"] == state["step"] < 200
    assert status["message"] == model["provenance"]["ended"] and "not significantly better" in status["message"]


def test_without_patience_nothing_is_another(many: Path, tmp_path: Path, alone: None) -> None:
    """Checkpoints and run directory are equal too."""
    plain = trainer_of(tiny_recipe("acoustic", many), tmp_path / "plain")
    patient = trainer_of(tiny_recipe("acoustic", many, patience=50), tmp_path / "patient")
    assert plain.train() == patient.train() == "finished"
    kept, more = plain.state(), patient.state()
    assert "patience" not in kept and not logged(plain.run.path, "patience/waited")
    assert more.pop("patience")["waited"] < 50 and not patient.why
    assert abs(kept.pop("best_loss") / more.pop("best_loss") - 1) < 1e-4, "one by one or together, to rounding"
    assert_same(kept, more)
    _, train = settings("acoustic")
    assert in_use(train | {"patience": None}) == in_use(train)
    assert in_use(train | {"patience": 3}) != in_use(train)


def test_too_few_utterances_and_adversaries_are_refused(features: Path, tmp_path: Path, alone: None) -> None:
    with pytest.raises(SonorantError, match=r"train_acoustic\.patience: .*at least 20 .*there are 4: raise prepare"):
        trainer_of(tiny_recipe("acoustic", features, patience=1), tmp_path / "run").train()
    with pytest.raises(ValueError, match="patience uses only the spectral losses"):
        tiny_recipe("vocoder", features, patience=1, adversarial=True)


def judged(patience: Patience, step: int, losses: np.ndarray) -> bool:
    patience.judge(step, losses.tolist())
    return patience.best_step == step


def test_better_is_what_is_certainly_below_the_best_on_the_same_utterances() -> None:
    random, patience = np.random.default_rng(1), Patience(3, "acoustic")
    hard_U = random.uniform(1, 9, 40)
    assert judged(patience, 1, hard_U)
    assert judged(patience, 2, hard_U - 0.01 - 0.005 * random.standard_normal(40)), "paired, so a little is seen"
    chance_U = random.standard_normal(40)
    assert not judged(patience, 3, hard_U - 0.02 + chance_U - chance_U.mean()), "a lower mean may be chance"
    for step in range(4, 30):
        patience.waited = 0
        judged(patience, step, hard_U - 0.004 * step - 0.02 * random.standard_normal(40))
    assert patience.best_step > 20, "small gains add up, since the best stays until one is certainly better"


def test_each_held_out_utterance_counts_once() -> None:
    plan = [MicroBatch(0, 0, np.array([7, 3]), np.array([1, 2])), MicroBatch(0, 1, np.array([5, 7]), np.array([3, 9]))]
    alone = one_by_one(plan)
    assert [(int(one.items[0]), int(one.starts[0])) for one in alone if one.starts is not None] == [
        (3, 2),
        (5, 3),
        (7, 1),
    ]
    assert len({one.number for one in alone}) == 3, "each draws its own noise"
