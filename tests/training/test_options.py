"""What saves memory or time changes no gradient: recomputed and compiled blocks, scaled losses, accumulation, the fused
optimizer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from sonorant.errors import SonorantError
from sonorant.training.distributed.ranks import Ranks
from sonorant.training.networks import compile_blocks
from sonorant.training.step import TrainStep
from sonorant.training.telemetry.stopwatch import Stopwatch
from tests.support.tiny_training import tiny_recipe

CPU = Ranks(0, 1, 0, torch.device("cpu"))


def step_of(kind: str, features: Path, **changes: Any) -> TrainStep:
    return TrainStep(tiny_recipe(kind, features, **changes), CPU, Stopwatch())


def gradients_of(trained: TrainStep) -> tuple[torch.Tensor, int]:
    """Those of the first step, and the bytes kept for the backward passes that were not there before."""
    own = {parameter.data_ptr() for phase in trained.recipe.phases for parameter in phase.module.parameters()}
    kept: dict[int, int] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    step = trained.recipe.plan.steps(0)[0]
    data = trained.recipe.dataset(step)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        trained.gradients(0, step, (data[index] for index in range(len(step))))
    parameters = [parameter for phase in trained.recipe.phases for parameter in phase.module.parameters()]
    return torch.cat([parameter.grad.flatten() for parameter in parameters if parameter.grad is not None]), sum(
        kept.values()
    )


@pytest.mark.parametrize(
    ("kind", "changes", "part"),
    [
        ("acoustic", {"dropout": 0.3}, 0.7),
        ("acoustic", {"decoder": "flow"}, 0.7),
        ("vocoder", {}, 0.9),
        ("language_model", {"dropout": 0.3, "layers": 6}, 0.7),
    ],
)
def test_recomputed_activations_give_the_same_gradients_with_less_memory(
    kind: str, changes: dict[str, Any], part: float, features: Path, alone: None
) -> None:
    """To the bit, dropout included: its random numbers are drawn again as they were. A vocoder's spectra are not among
    the blocks."""
    deep = {**changes, "decoder_blocks": 6, "blocks": 6, "expansion": 8, "micro_batches_per_step": 1}
    kept, taken = gradients_of(step_of(kind, features, **deep))
    recomputed, less = gradients_of(step_of(kind, features, **deep, activation_checkpointing=True))
    assert torch.equal(kept, recomputed)
    assert less < part * taken


def test_compiled_blocks_give_the_same_gradients_and_names(features: Path, alone: None, cpp: None) -> None:
    torch._dynamo.utils.counters.clear()  # of what other tests have compiled
    eager, compiled = (
        step_of("vocoder", features, compile=switch, micro_batches_per_step=1) for switch in (False, True)
    )
    first, second = gradients_of(eager)[0], gradients_of(compiled)[0]
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] > 0, "nothing was compiled"
    assert (first - second).norm() < 1e-3 * first.norm()
    assert eager.state()["phases"]["generator"].keys() == compiled.state()["phases"]["generator"].keys()


def test_the_absence_of_a_compiler_is_said_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "g++-of-nowhere")
    with pytest.raises(SonorantError, match=r"compile: needs g\+\+-of-nowhere, a C\+\+ compiler"):
        compile_blocks(torch.nn.Linear(1, 1), torch.device("cpu"))


def weights_after_a_step(trained: TrainStep) -> torch.Tensor:
    step = trained.recipe.plan.steps(0)[0]
    data = trained.recipe.dataset(step)
    trained.take(0, step, (data[index] for index in range(len(step))))
    return torch.cat([parameter.detach().flatten() for parameter in trained.recipe.model.parameters()])


def test_gradients_are_clipped_after_unscaling(features: Path, alone: None) -> None:
    """Clipped before, a scale of 65536 would leave a gradient of almost nothing: Adam hides that, a plain optimizer
    does not."""
    plain, scaled = (step_of("acoustic", features, clip_norm=1e-2, learning_rate=1.0) for _ in range(2))
    scaled.scaler = torch.amp.GradScaler("cpu", init_scale=65536.0)
    before = torch.cat([parameter.detach().flatten() for parameter in plain.recipe.model.parameters()])
    for trained in (plain, scaled):
        trained.optimizers = {"acoustic": torch.optim.SGD(trained.recipe.model.parameters(), lr=1.0)}
    first, second = (weights_after_a_step(trained) for trained in (plain, scaled))
    assert (first - second).norm() < 1e-5 * (first - before).norm()


def test_a_step_in_which_fp16_overflowed_is_left_out_with_a_smaller_scale(features: Path, alone: None) -> None:
    trained = step_of("acoustic", features)
    trained.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**16)
    trained.recipe.model.get_parameter("prior.weight").register_hook(lambda gradient: gradient * torch.inf)
    before = torch.cat([parameter.detach().flatten() for parameter in trained.recipe.model.parameters()])
    assert torch.equal(weights_after_a_step(trained), before)
    assert trained.scaler.get_scale() == 2.0**15


def test_accumulated_gradients_are_those_of_one_large_batch(features: Path, alone: None) -> None:
    many = step_of("acoustic", features, dropout=0.0, frames_per_micro_batch=400, micro_batches_per_step=99)
    one = step_of("acoustic", features, dropout=0.0, frames_per_micro_batch=9999, micro_batches_per_step=1)
    assert len(many.recipe.plan.steps(0)[0]) > 4
    assert len(one.recipe.plan.steps(0)[0]) == 1
    first, second = gradients_of(many)[0], gradients_of(one)[0]
    assert (first - second).norm() < 1e-4 * first.norm()


def test_the_optimizer_is_the_fused_one(features: Path, alone: None) -> None:
    assert all(group["fused"] for group in step_of("acoustic", features).optimizers["acoustic"].param_groups)
