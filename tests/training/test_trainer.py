"""Errors of recipes and the loop, and a run on a GPU where there is one."""

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from sonorant.errors import SonorantError
from sonorant.features.plan import MicroBatch
from sonorant.training import checkpoint, trainer
from sonorant.training.distributed.ranks import AllRanksError
from sonorant.training.run_directory import read_metrics
from sonorant.training.trainer import Trainer
from sonorant.training.worker import work
from testbed.tiny_training import RECIPES, tiny_job, tiny_recipe
from tests.training.trainings import ALONE, assert_same, trainer_of, with_splits


@pytest.mark.parametrize("kind", RECIPES)
@pytest.mark.parametrize("absent", ["train", "validation"])
def test_a_split_without_utterances_is_refused_by_name(features: Path, tmp_path: Path, kind: str, absent: str) -> None:
    store = with_splits(features, tmp_path / "features", lambda _, split: "test" if split == absent else split)
    with pytest.raises(SonorantError, match=f"no utterances in its {absent} split: add recordings or change"):
        tiny_recipe(kind, store)


@pytest.mark.parametrize("kind", ["acoustic", "language_model"])
def test_an_utterance_longer_than_a_micro_batch_is_refused_by_its_id(kind: str, features: Path) -> None:
    words = rf"utterance u\d+ \(train\) has \d+ frames.*train_{kind}.frames_per_micro_batch \(100\)"
    with pytest.raises(SonorantError, match=words):
        tiny_recipe(kind, features, frames_per_micro_batch=100)


def test_utterances_shorter_than_a_segment_are_counted(features: Path) -> None:
    frames = tiny_recipe("vocoder", features).store.frames
    assert tiny_recipe("vocoder", features, segment_frames=int(frames.min())).notes == []
    [note] = tiny_recipe("vocoder", features, segment_frames=int(frames.max())).notes
    assert re.match(r"vocoder: 1[56] of 16 utterances are shorter", note)


@pytest.mark.parametrize(("log_every", "on_gpu", "stopped"), [(1, True, 5), (100, False, 5), (100, True, 6)])
def test_divergence_names_its_step_and_saves_nothing(
    log_every: int, on_gpu: bool, stopped: int, features: Path, tmp_path: Path, alone: None
) -> None:
    """A GPU's gradient norms are read only where the loop waits for it anyway."""
    diverged = trainer_of(tiny_recipe("acoustic", features, log_every=log_every), tmp_path / "run")
    diverged.meter.on_gpu, take = on_gpu, diverged.trained.take

    def poisoned(step: int, *given: Any) -> Any:
        if step == 4:
            with torch.no_grad():
                next(diverged.recipe.model.parameters()).fill_(math.nan)
        return take(step, *given)

    diverged.trained.take = poisoned  # type: ignore[method-assign]
    words = (
        r"^step 5: training of the acoustic has diverged \(gradient norm nan\) at learning rate 0\.00\d+ with \d+ "
        r"utterances \(u\d+, .*\); last good checkpoint: step-00000004\.ckpt; lower train_acoustic.learning_rate, "
    )
    with pytest.raises(AllRanksError, match=words):
        diverged.train()
    assert diverged.step == stopped
    assert checkpoint.existing(diverged.run.checkpoints)[0].name == "step-00000004.ckpt"


def test_a_model_of_no_finite_validation_loss_is_saved_and_names_none(
    features: Path, tmp_path: Path, alone: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """JSON has neither infinity nor NaN."""
    monkeypatch.setattr(trainer, "validation_losses", lambda *given: ({"loss": math.nan}, []))
    assert work(tiny_job("vocoder", features, tmp_path, steps=2, validate_every=1), ALONE)["state"] == "finished"
    text = (tmp_path / "model/model.json").read_text(encoding="utf-8")
    provenance = json.loads(text, parse_constant=lambda name: pytest.fail(f"model.json holds {name}"))["provenance"]
    assert provenance["steps"] == 2 and "validation_loss" not in provenance
    assert (tmp_path / "model/weights.pt").exists()


def told(steps: list[list[MicroBatch]]) -> list[list[tuple[int, int, list[int]]]]:
    """Each micro-batch as plain numbers."""
    return [[(batch.epoch, batch.number, batch.items.tolist()) for batch in step] for step in steps]


def test_short_epochs_are_loaded_together_and_in_order(
    features: Path, tmp_path: Path, alone: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loader processes start once for several short epochs."""
    recipe = tiny_recipe("vocoder", features, steps=11, validate_every=100)
    trainer, loaded = trainer_of(recipe, tmp_path), []
    monkeypatch.setattr(trainer, "load", lambda steps: loaded.append(steps) or Trainer.load(trainer, steps))
    taken = []
    for micro_batches, batches in trainer.steps():
        taken.append(micro_batches)
        trainer.take_step(micro_batches, batches)
    epoch = len(recipe.plan.steps(0))
    assert epoch < 6, "an epoch is not short"
    planned = [step for number in range(11) for step in recipe.plan.steps(number)][:11]
    assert len(loaded) == 1 and told(loaded[0][:11]) == told(taken) == told(planned)
    assert (trainer.epoch, trainer.step_in_epoch) == divmod(11, epoch)


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("acoustic", {}),
        ("acoustic", {"decoder": "flow", "prosody_kind": "flow"}),
        ("vocoder", {}),
        ("vocoder", {"adversarial": True}),
    ],
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
