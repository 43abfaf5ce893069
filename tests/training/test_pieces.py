"""Memory that runs out on one rank changes neither the step nor the other ranks."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from sonorant.errors import SonorantError
from sonorant.families.parallel.training import AcousticRecipe, VocoderRecipe
from sonorant.training import checkpoint
from sonorant.training.distributed.launch import environment
from sonorant.training.distributed.ranks import Ranks
from sonorant.training.run_directory import read_metrics
from sonorant.training.step import TrainStep
from sonorant.training.sub_batches import SubBatches, out_of_memory
from sonorant.training.telemetry.stopwatch import Stopwatch
from tests.support.imports import ROOT
from tests.support.tiny_training import settings, tiny_job
from tests.training.exhausted import Exhausted

CPU = Ranks(0, 1, 0, torch.device("cpu"))
QUIET = {"dropout": 0.0, "micro_batches_per_step": 3, "steps": 6, "validate_every": 6}
"""What is drawn per sub_batch would differ; of three micro-batches on two ranks, rank 0 accumulates two."""


def train(features: Path, folder: Path, scarce: dict[str, str], **changes: Any) -> tuple[int, str]:
    """Two real ranks, rank 1 of which is short of memory; their exit status and what they said."""
    folder.mkdir(exist_ok=True)
    job = tiny_job("acoustic", features, folder, **{**QUIET, **changes})
    job.write(folder / "job.json")
    env = environment({**os.environ, "PET_NPROC_PER_NODE": "2", "PYTHONPATH": str(ROOT)}, 2) | scarce
    module = "tests.training.scarce_worker" if scarce else "sonorant.training.worker"
    command = [sys.executable, "-m", "sonorant.training.distributed.agent", "-m", module, str(folder / "job.json")]
    done = subprocess.run(command, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=200)
    return done.returncode, done.stdout


def losses(folder: Path) -> list[float]:
    rows = (row["metrics"] for row in read_metrics(folder / "run" / "metrics.jsonl"))
    return [row["train/loss"] for row in rows if "train/loss" in row]


def test_training_goes_on_in_pieces_and_follows_the_same_curve(features: Path, tmp_path: Path) -> None:
    plenty, scarce = tmp_path / "plenty", tmp_path / "scarce"
    status, output = train(features, plenty, {})
    assert status == 0, output
    status, output = train(features, scarce, {"SCARCE": "passes", "SCARCE_LIMIT": "6000"})
    assert status == 0, output
    said = re.findall(r"rank (\d) on .*: out of memory in acoustic with (\d+) rows at once: from now on (\d)", output)
    assert len(said) >= 2, "once forward and once backward"
    assert {rank for rank, _, _ in said} == {"1"}
    assert "in the end all ranks hold the same weights" in output
    assert losses(scarce) == pytest.approx(losses(plenty), rel=1e-4)
    first, second = (
        checkpoint.load(checkpoint.existing(folder / "run" / "checkpoints")[0]) for folder in (scarce, plenty)
    )
    for name, value in first["phases"]["acoustic"].items():
        torch.testing.assert_close(value, second["phases"]["acoustic"][name], rtol=1e-3, atol=1e-4)
    assert json.loads((scarce / "run" / "sub_batches" / "rank-1.json").read_text()).keys() == {"acoustic"}
    assert not (scarce / "run" / "sub_batches" / "rank-0.json").exists()


@pytest.mark.long
def test_a_kernel_that_refuses_memory_is_survived(features: Path, tmp_path: Path) -> None:
    wide = {
        "channels": 32,
        "expansion": 96,
        "decoder_blocks": 4,
        "frames_per_micro_batch": 1800,
        "micro_batches_per_step": 2,
    }
    scarce = {"SCARCE": "address_space", "SCARCE_LIMIT": "420", "MALLOC_ARENA_MAX": "1"}
    status, output = train(features, tmp_path, scarce, **wide, steps=2)
    assert status == 0, output
    assert re.search(r"rank 1 on .*: out of memory in acoustic with \d+ rows at once", output)


@pytest.mark.long
def test_two_real_ranks_take_the_smaller_of_their_budgets(features: Path, tmp_path: Path) -> None:
    scarce = {"SCARCE": "budget", "SCARCE_LIMIT": "900"}
    status, output = train(features, tmp_path, scarce, frames_per_micro_batch="auto", micro_batches_per_step=2)
    assert status == 0, output
    found = checkpoint.load(checkpoint.existing(tmp_path / "run" / "checkpoints")[0])["budget"]
    assert 200 <= found <= 900
    assert f"{found} a micro-batch, as memory allows" in output


def batches_of(recipe: AcousticRecipe | VocoderRecipe) -> tuple[list[Any], Any]:
    step = recipe.plan.steps(0)[0]
    data = recipe.dataset(step)
    return step, iter([data[index] for index in range(len(step))])


def test_memory_that_runs_out_while_gradients_are_averaged_ends_the_run_and_the_next_start_goes_on(
    features: Path, tmp_path: Path, alone: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """What went through once is averaged at once; failing then, it cannot be taken back on the other ranks."""
    kept = tmp_path / "pieces.json"
    recipe = AcousticRecipe(*settings("acoustic", micro_batches_per_step=1), features)
    trained = TrainStep(recipe, CPU, Stopwatch(), SubBatches("rank 0", kept))
    trained.gradients(0, *batches_of(recipe))
    recipe.model.prior.register_forward_hook(lambda module, given, out: Exhausted.apply(out))
    with pytest.raises(
        SonorantError,
        match=r"while gradients were being averaged.*resumes from the last checkpoint with sub_batches of half",
    ):
        trained.gradients(1, *batches_of(recipe))
    recipe = AcousticRecipe(*settings("acoustic", micro_batches_per_step=1), features)
    again = TrainStep(recipe, CPU, Stopwatch(), SubBatches("rank 0", kept))
    passes = []
    recipe.phases[0].module.register_forward_pre_hook(lambda module, given: passes.append(len(given[0]["mel"])))
    micro_batches, loaded = batches_of(recipe)
    again.gradients(0, micro_batches, loaded)
    rows = len(micro_batches[0].items)
    assert (
        f"rank 0: memory ran out here before, so micro-batches are taken in sub_batches; remove {kept}"
        in capsys.readouterr().out
    )
    assert sum(passes) in (rows, rows + 1), "a pass of one more row where nothing was proven"
    assert max(passes) == (rows + 1) // 2


@pytest.mark.parametrize("adversarial", [False, True])
def test_gradients_in_pieces_are_those_of_the_whole(
    features: Path, alone: None, tmp_path: Path, adversarial: bool
) -> None:
    """Of the adversaries too, who judge what the generator made sub_batch by sub_batch."""
    recipe = VocoderRecipe(
        *settings("vocoder", adversarial=adversarial, segments_per_micro_batch=7, micro_batches_per_step=1), features
    )
    gradients = []
    for kept in ({}, {"generator": 1, "discriminator": 150_000}):
        (tmp_path / "pieces.json").write_text(json.dumps(kept))
        trained = TrainStep(recipe, CPU, Stopwatch(), SubBatches("rank 0", tmp_path / "pieces.json"))
        trained.gradients(0, *batches_of(recipe))
        gradients.append(
            torch.cat(
                [p.grad.flatten() for phase in recipe.phases for p in phase.module.parameters() if p.grad is not None]
            )
        )
    assert (gradients[0] - gradients[1]).norm() < 5e-3 * gradients[0].norm(), (
        "the sign of an L1 flips where rounding decides"
    )


def test_a_single_row_that_does_not_fit_is_said_to_be_one() -> None:
    sub_batches = SubBatches("rank 3")
    (only,) = sub_batches.of("acoustic", {"mel": torch.zeros(1, 5, 2)})
    with pytest.raises(
        SonorantError, match="rank 3: out of memory in acoustic with a single row of 10 values: set activation_checkp"
    ):
        sub_batches.halve("acoustic", only)


def test_only_a_failed_allocation_is_taken_for_one() -> None:
    with pytest.raises(RuntimeError) as refused:
        torch.empty(2**60)
    assert out_of_memory(refused.value)  # type: ignore[arg-type]
    assert out_of_memory(torch.OutOfMemoryError("CUDA out of memory"))
    assert out_of_memory(MemoryError())
    assert not out_of_memory(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))


def test_a_gpu_that_runs_out_of_memory_goes_on_in_pieces(features: Path, tmp_path: Path) -> None:
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    device = torch.device("cuda", 0)
    torch.cuda.set_device(device)
    torch.distributed.init_process_group(
        "cpu:gloo,cuda:nccl", init_method=f"file://{tmp_path}/group", rank=0, world_size=1
    )
    wide = {
        "channels": 64,
        "expansion": 64,
        "decoder_blocks": 4,
        "frames_per_micro_batch": 1800,
        "micro_batches_per_step": 1,
    }
    try:
        recipe = AcousticRecipe(*settings("acoustic", **wide), features)
        trained = TrainStep(recipe, Ranks(0, 1, 0, device), Stopwatch(), SubBatches("rank 0", tmp_path / "pieces.json"))
        held = torch.cuda.memory_reserved(device) + 200 * 2**20
        torch.cuda.set_per_process_memory_fraction(held / torch.cuda.mem_get_info(device)[1])
        trained.take(0, *batches_of(recipe))
        assert (tmp_path / "pieces.json").exists()
        assert all(torch.isfinite(parameter).all() for parameter in recipe.model.parameters())
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
        torch.distributed.destroy_process_group()
