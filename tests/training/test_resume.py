import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from sonorant.errors import SonorantError
from sonorant.training import checkpoint
from sonorant.training.run_directory import read_metrics
from sonorant.training.trainer import Trainer
from testbed.tiny_training import tiny_recipe
from tests.support.trainings import Training
from tests.support.waiting import PATIENCE
from tests.training.trainings import assert_resumes, assert_same, logged, newest_state, trainer_of

CASES: list[tuple[str, dict[str, Any]]] = [
    ("acoustic", {"decoder": "flow", "prosody_kind": "flow"}),
    ("acoustic", {"precision": "bf16"}),
    ("vocoder", {"adversarial": True}),
    ("codec", {"precision": "bf16"}),
    ("codec", {"kind": "source_filter"}),
    ("language_model", {"prompt_frames": 5}),
    ("language_model", {"precision": "bf16", "attention": "sliding"}),
]


@pytest.mark.parametrize(("kind", "changes"), CASES)
def test_resumed_equals_uninterrupted(kind: str, changes: dict, features: Path, tmp_path: Path, alone: None) -> None:
    assert_resumes(lambda run: trainer_of(tiny_recipe(kind, features, **changes), run), tmp_path, 6)


@pytest.mark.parametrize(
    ("kind", "loss"),
    [("acoustic", "loss"), ("codec", "mel"), ("language_model", "codes"), ("language_model", "advance")],
)
def test_training_learns(kind: str, loss: str, features: Path, tmp_path: Path, alone: None) -> None:
    """Otherwise two idle trainings would be equal."""
    recipe = tiny_recipe(kind, features, steps=40, validate_every=40, checkpoint_every=40)
    trainer_of(recipe, tmp_path / "run").train()
    losses = logged(tmp_path / "run", f"train/{loss}")
    assert sum(losses[-5:]) < 0.8 * sum(losses[:5])


def acoustic(features: Path, tmp_path: Path, fingerprint: str = "f") -> Trainer:
    """The same training in the same run directory."""
    return trainer_of(tiny_recipe("acoustic", features), tmp_path / "run", fingerprint)


def damaged(data: bytes, damage: str) -> bytes:
    first, middle, last = data[: len(data) // 2], data[len(data) // 2], data[len(data) // 2 + 1 :]
    return {"flipped": first + bytes([middle ^ 1]) + last, "cut": first}[damage]


@pytest.mark.parametrize("damage", ["flipped", "cut"])
def test_a_damaged_newest_checkpoint_is_named_and_the_one_before_it_used(
    damage: str, features: Path, tmp_path: Path, alone: None, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = acoustic(features, tmp_path)
    whole.train()
    newest = checkpoint.existing(whole.run.checkpoints)[0]
    newest.write_bytes(damaged(newest.read_bytes(), damage))
    again = acoustic(features, tmp_path)
    assert again.train() == "finished"
    said = capsys.readouterr().out
    assert f"{newest} is damaged" in said and "at step 6 of 8" in said
    assert_same(whole.state(), again.state())
    assert checkpoint.load(newest)["step"] == 8


def test_where_no_checkpoint_is_whole_nothing_is_trained_over_them(features: Path, tmp_path: Path, alone: None) -> None:
    acoustic(features, tmp_path).train()
    for path in checkpoint.existing(tmp_path / "run/checkpoints"):
        path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(SonorantError, match="all 2 checkpoints are damaged"):
        acoustic(features, tmp_path).train()


def test_a_checkpoint_of_other_settings_is_refused(features: Path, tmp_path: Path, alone: None) -> None:
    acoustic(features, tmp_path).train()
    with pytest.raises(SonorantError, match="other settings"):
        acoustic(features, tmp_path, fingerprint="g").resume()


def test_three_ranks_resume_with_the_same_bits(features: Path, tmp_path: Path) -> None:
    """Sums of three depend on their order, that is on DDP's buckets, and a third is not exact."""
    first, second = (Training("vocoder", features, tmp_path / name, micro_batches_per_step=3) for name in ("a", "b"))
    first.finish(3)
    checkpoints = shutil.copytree(first.run.checkpoints, second.run.checkpoints)
    checkpoint.path_of(checkpoints, 8).unlink()
    assert "at step 6 of 8" in second.finish(3)
    assert_same(newest_state(first.run.path), newest_state(second.run.path))


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.long)])
def test_sigterm_saves_and_the_next_start_goes_on(workers: int, features: Path, tmp_path: Path) -> None:
    """torchrun sends SIGTERM to loader processes too."""
    long = {"steps": 100_000, "validate_every": 100_000, "checkpoint_every": 100_000}
    training = Training("acoustic", features, tmp_path, {"data": {"workers": workers}}, **long)
    agent = training.start()
    training.wait_for(lambda: read_metrics(training.run.metrics), agent)
    agent.send_signal(signal.SIGTERM)
    agent.wait(PATIENCE)
    status = training.run.status()
    assert status["state"] == "stopped"
    assert newest_state(training.run.path)["step"] == status["step"] > 0
