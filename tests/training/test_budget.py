import os
from pathlib import Path
from typing import Any

import pytest
import torch

from sonorant.errors import SonorantError
from sonorant.features.plan import padding_waste
from sonorant.training import checkpoint, memory
from sonorant.training.distributed.ranks import AllRanksError, Ranks
from sonorant.training.recipe import Recipe
from sonorant.training.run_directory import RunDirectory
from testbed.tiny_training import tiny_recipe
from tests.training.trainings import ALONE, logged, newest_state, step_of, trainer_of

pytestmark = pytest.mark.usefixtures("alone")
AUTO = {
    "acoustic": {"frames_per_micro_batch": "auto"},
    "vocoder": {"segments_per_micro_batch": "auto"},
    "language_model": {"frames_per_micro_batch": "auto"},
}


@pytest.mark.parametrize("kind", AUTO)
def test_a_budget_found_leaves_an_epoch_its_steps_and_the_weights_as_they_were(
    kind: str, features: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "STEPS_AN_EPOCH", 3)
    trained = step_of(kind, features, **AUTO[kind], micro_batches_per_step=1)
    chosen = trained.recipe
    with pytest.raises(SonorantError, match="is auto, but a plan needs a number; set one"):
        chosen.plan.steps(0)
    before = [parameter.detach().clone() for parameter in chosen.model.parameters()]
    assert memory.find_budget(trained, 0.5) == chosen.budget == chosen.budget_range(3)[1]
    assert 3 <= len(chosen.plan.steps(0)) <= 5
    assert all(torch.equal(a, b) for a, b in zip(before, chosen.model.parameters(), strict=True))
    assert all(parameter.grad is None for parameter in chosen.model.parameters())


@pytest.mark.parametrize("allowed", [1, 3, 8])
@pytest.mark.parametrize("knee", [5, 100])
def test_the_budget_stays_below_what_is_allowed_and_comes_close(
    allowed: int, knee: int, features: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory grows by a third more above `knee` times the smallest budget."""
    trained = step_of("acoustic", features, **AUTO["acoustic"], micro_batches_per_step=1)
    smallest, largest = trained.recipe.budget_range(1)
    assert largest > 9 * smallest
    monkeypatch.setattr(memory, "STEPS_AN_EPOCH", 1)
    monkeypatch.setattr(memory, "_peak_of", lambda trained, trial: trial * (1333 if trial > knee * smallest else 1000))
    monkeypatch.setattr(memory, "_yet_to_come", lambda trained: 0)
    monkeypatch.setattr(memory, "allowance", lambda device, share: allowed * smallest * 1000)
    found = memory.find_budget(trained, 1.0)
    best = allowed * smallest * 1000 // (1333 if allowed > knee else 1000)
    assert best / memory.CLOSE_ENOUGH <= found <= best


def test_a_peak_that_is_forgotten_does_not_count_for_the_next_trial() -> None:
    if not os.access("/proc/self/clear_refs", os.W_OK):
        pytest.skip("the system does not let a process forget its peak")
    device = torch.device("cpu")
    memory.forget_peak(device)  # the peak of other tests
    before = memory.peak(device)
    much = torch.ones(2**26)
    assert memory.peak(device) > before + 2**27
    del much
    memory.forget_peak(device)
    assert memory.peak(device) < before + 2**27


def test_what_does_not_fit_at_all_is_said_before_the_first_step(features: Path) -> None:
    with pytest.raises(AllRanksError, match=r"smallest budget \(\d+\) does not fit .*machine.memory_share"):
        memory.find_budget(step_of("acoustic", features, **AUTO["acoustic"]), 1e-6)


def test_the_rank_with_the_least_memory_is_the_one_named(features: Path) -> None:
    class Neighbours(Ranks):
        def gather(self, value: Any) -> list[Any]:
            return [value, (0, 2**30, "rank 7 on small")]

    trained = step_of("acoustic", features, **AUTO["acoustic"])
    trained.ranks = Neighbours(0, 1, 0, torch.device("cpu"))
    with pytest.raises(AllRanksError, match=r"^rank 7 on small: .* into 1.0 GiB"):
        memory.find_budget(trained, 0.5)


def test_a_budget_is_logged_with_padding_and_memory_and_a_resumed_run_keeps_it(features: Path, tmp_path: Path) -> None:
    def trained() -> Recipe:
        trainer = trainer_of(tiny_recipe("acoustic", features, **AUTO["acoustic"], steps=2, log_every=2), tmp_path)
        trainer.train()
        return trainer.recipe

    chosen = trained()
    assert logged(tmp_path, "batch/budget") == [chosen.budget]
    plan = [batch for step in chosen.plan.steps(0)[:2] for batch in step]
    [padding], [peak] = logged(tmp_path, "batch/padding"), logged(tmp_path, "memory/peak_gib")
    assert padding_waste(plan, chosen.store.frames) <= padding < 0.5
    assert peak * 2**30 == pytest.approx(memory.peak(ALONE.device), rel=0.2)
    state = newest_state(tmp_path)
    assert state["budget"] == chosen.budget
    newest = checkpoint.existing(RunDirectory(tmp_path).checkpoints)[0]
    checkpoint.save(newest, {**state, "budget": 777})
    assert trained().budget == 777
