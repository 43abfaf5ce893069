import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from sonorant.errors import SonorantError
from sonorant.training.distributed.ranks import Ranks
from sonorant.training.step import TrainStep
from sonorant.training.sub_batches import SubBatches, add_gradients, out_of_memory
from sonorant.training.telemetry.stopwatch import Stopwatch
from testbed.tiny_training import tiny_recipe
from tests.support.trainings import Training
from tests.training.disturbed_worker import Exhausted
from tests.training.trainings import ALONE, batches_of, gradients_of, logged, newest_state


def test_training_goes_on_in_parts_and_follows_the_same_curve(features: Path, tmp_path: Path) -> None:
    """Dropout would differ between parts; of three micro-batches on two ranks, rank 0 accumulates two."""
    quiet = {"dropout": 0.0, "micro_batches_per_step": 3, "steps": 6, "validate_every": 6}
    first, second = (Training("acoustic", features, tmp_path / name, **quiet) for name in ("plenty", "scarce"))
    first.finish(2)
    output = second.finish(2, DISTURBED="scarce_passes", SCARCE_LIMIT="6000")
    plenty, scarce = first.run.path, second.run.path
    said = re.findall(r"rank (\d) on .*: out of memory in acoustic with (\d+) rows at a time; from now on (\d)", output)
    assert len(said) >= 2, "once forward and once backward"
    assert {rank for rank, _, _ in said} == {"1"}
    assert logged(scarce, "train/loss") == pytest.approx(logged(plenty, "train/loss"), rel=5e-4)
    first, second = (newest_state(run)["phases"]["acoustic"] for run in (scarce, plenty))
    torch.testing.assert_close(first, second, rtol=1e-3, atol=1e-4)
    assert json.loads((scarce / "sub_batches/rank-1.json").read_text()).keys() == {"acoustic"}
    assert not (scarce / "sub_batches/rank-0.json").exists()


def test_memory_that_runs_out_while_averaging_ends_the_run_and_the_next_start_goes_on(
    features: Path, tmp_path: Path, alone: None
) -> None:
    """After the reduction a step cannot be undone on other ranks."""

    def started() -> TrainStep:
        recipe = tiny_recipe("acoustic", features, micro_batches_per_step=1)
        return TrainStep(recipe, ALONE, Stopwatch(), SubBatches("rank 0", tmp_path / "kept.json"))

    trained = started()
    trained.gradients(0, *batches_of(trained.recipe))
    trained.recipe.model.prior.register_forward_hook(lambda module, given, out: Exhausted.apply(out))
    with pytest.raises(SonorantError, match=r"gradients were being averaged.*resumes from the last checkpoint"):
        trained.gradients(1, *batches_of(trained.recipe))
    again, passes = started(), []
    module = again.recipe.phases[0].module
    module.register_forward_pre_hook(lambda module, given: passes.append(len(given[0]["mel"])))
    micro_batches, loaded = batches_of(again.recipe)
    again.gradients(0, micro_batches, loaded)
    rows = len(micro_batches[0].items)
    assert sum(passes) in (rows, rows + 1), "a pass of one more row where nothing was proven"
    assert max(passes) == (rows + 1) // 2


def test_memory_that_runs_out_before_averaging_halves_the_part(features: Path, alone: None) -> None:
    trained = TrainStep(
        tiny_recipe("acoustic", features, micro_batches_per_step=1), ALONE, Stopwatch(), SubBatches("a")
    )
    trained.gradients(0, *batches_of(trained.recipe))
    rows: list[int] = []

    def scarce(module: torch.nn.Module, given: Any) -> None:
        rows.append(len(given[0]["mel"]))
        if len(rows) == 1:
            raise torch.OutOfMemoryError("out of memory")

    trained.recipe.phases[0].module.register_forward_pre_hook(scarce)
    trained.gradients(1, *batches_of(trained.recipe))
    whole, *parts = rows
    assert max(parts) == (whole + 1) // 2 and sum(parts) == whole


@pytest.mark.parametrize("adversarial", [False, True])
def test_gradients_in_parts_are_the_same(features: Path, alone: None, tmp_path: Path, adversarial: bool) -> None:
    changes = {"adversarial": adversarial, "segments_per_micro_batch": 7, "micro_batches_per_step": 1}
    recipe, found = tiny_recipe("vocoder", features, **changes), []
    for kept in ({}, {"generator": 1, "discriminator": 150_000}):
        (tmp_path / "kept.json").write_text(json.dumps(kept))
        trained = TrainStep(recipe, ALONE, Stopwatch(), SubBatches("rank 0", tmp_path / "kept.json"))
        found.append(gradients_of(trained))
    whole, parts = found
    assert (whole - parts).norm() < 5e-3 * whole.norm(), "the sign of an L1 flips where rounding decides"


def test_memory_that_runs_out_while_gradients_are_added_leaves_none_added(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are repeated and would count twice."""
    module = torch.nn.ParameterList([torch.ones(1), torch.ones(1)])
    allocations = []

    def zeros_like(tensor: torch.Tensor) -> torch.Tensor:
        allocations.append(tensor)
        if len(allocations) == 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return real(tensor)

    real = torch.zeros_like
    monkeypatch.setattr(torch, "zeros_like", zeros_like)
    with pytest.raises(torch.OutOfMemoryError):
        add_gradients(module, 2 * module[0] + 3 * module[1])
    assert [parameter.grad for parameter in module] == [None, None]
    for _ in range(2):
        add_gradients(module, 2 * module[0] + 3 * module[1])
    assert [parameter.grad.item() for parameter in module] == [4, 6]


def test_a_single_row_that_does_not_fit_is_refused() -> None:
    def compute(*given: Any) -> dict[str, torch.Tensor]:
        raise MemoryError

    with pytest.raises(SonorantError, match=r"^rank 3: out of memory in acoustic with a single row of 10 values"):
        SubBatches("rank 3").run("acoustic", {"mel": torch.zeros(1, 5, 2)}, False, compute)


def test_only_a_failed_allocation_is_taken_for_one() -> None:
    with pytest.raises(RuntimeError) as refused:
        torch.empty(2**60)
    assert out_of_memory(refused.value)  # type: ignore[arg-type]
    assert not out_of_memory(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))


def test_a_gpu_that_runs_out_of_memory_goes_on_in_parts(features: Path, tmp_path: Path, alone_on_a_gpu: None) -> None:
    device, kept = torch.device("cuda", 0), tmp_path / "kept.json"
    wide = {"channels": 64, "expansion": 64, "decoder_blocks": 4, "frames_per_micro_batch": 1800}
    recipe = tiny_recipe("acoustic", features, **wide, micro_batches_per_step=1)
    try:
        trained = TrainStep(recipe, Ranks(0, 1, 0, device), Stopwatch(), SubBatches("rank 0", kept))
        trained.take(0, *batches_of(recipe))
        held, peak = torch.cuda.memory_allocated(device), torch.cuda.max_memory_allocated(device)
        torch.cuda.empty_cache()
        torch.cuda.set_per_process_memory_fraction((held + 0.6 * (peak - held)) / torch.cuda.mem_get_info(device)[1])
        assert not kept.exists()
        trained.take(1, *batches_of(recipe))
        assert kept.exists()
        assert all(torch.isfinite(parameter).all() for parameter in recipe.model.parameters())
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
