"""Options that save memory or time change no gradient."""

from pathlib import Path
from typing import Any

import pytest
import torch

from sonorant.errors import SonorantError
from sonorant.extras.planning.work import activations_of_heaviest
from sonorant.layers.convnext import ConvNeXtBlock
from sonorant.training.networks import compile_blocks
from tests.training.trainings import assert_same, batches_of, gradients_of, step_of

pytestmark = pytest.mark.usefixtures("alone")


@pytest.mark.parametrize(
    ("kind", "changes", "part"),
    [
        ("acoustic", {"dropout": 0.3}, 0.7),
        ("vocoder", {}, 0.9),
        ("language_model", {"dropout": 0.3, "layers": 6}, 0.7),
    ],
)
def test_recomputed_activations_give_the_same_gradients_with_less_memory(
    kind: str, changes: dict[str, Any], part: float, features: Path
) -> None:
    """Bit-identical, dropout included. A vocoder's spectra are not checkpointed."""
    deep = {**changes, "decoder_blocks": 6, "blocks": 6, "expansion": 8, "micro_batches_per_step": 1}
    kept, recomputed = (step_of(kind, features, **deep, activation_checkpointing=one) for one in (False, True))
    assert activations_of_heaviest(recomputed) < part * activations_of_heaviest(kept)
    assert torch.equal(gradients_of(kept), gradients_of(recomputed))


def test_compiled_blocks_give_the_same_gradients_and_names(features: Path, cpp: None) -> None:
    torch._dynamo.utils.counters.clear()
    eager, compiled = (step_of("vocoder", features, compile=one, micro_batches_per_step=1) for one in (False, True))
    first, second = gradients_of(eager), gradients_of(compiled)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] > 0, "nothing was compiled"
    assert (first - second).norm() < 1e-3 * first.norm()
    assert eager.state()["phases"]["generator"].keys() == compiled.state()["phases"]["generator"].keys()


def test_the_absence_of_a_compiler_is_said_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "g++-of-nowhere")
    with pytest.raises(SonorantError, match=r"compile: needs g\+\+-of-nowhere, a C\+\+ compiler"):
        compile_blocks(torch.nn.Linear(1, 1), torch.device("cpu"))


@pytest.mark.long
def test_blocks_of_many_kernels_are_all_compiled(cpp: None) -> None:
    """torch stops compiling, with only a warning, after 8 graphs of one class."""
    blocks = torch.nn.ModuleList(ConvNeXtBlock(4, 1, 2 * half + 1) for half in range(10))
    sound, limit = torch.ones(1, 32, 4), torch._dynamo.config.patch(fail_on_recompile_limit_hit=True)
    want = [block(sound) for block in blocks]
    compile_blocks(blocks, torch.device("cpu"))
    with limit, torch.no_grad():
        torch.testing.assert_close([block(sound) for block in blocks], want)


def test_a_step_in_which_fp16_overflowed_is_left_out_with_a_smaller_scale(features: Path) -> None:
    trained = step_of("acoustic", features)
    trained.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**16)
    trained.recipe.model.get_parameter("prior.weight").register_hook(lambda gradient: gradient * torch.inf)
    weights = trained.recipe.model.state_dict()
    before = {name: value.clone() for name, value in weights.items()}
    trained.take(0, *batches_of(trained.recipe))
    assert_same(before, dict(weights))
    assert trained.scaler.get_scale() == 2.0**15


def test_accumulated_gradients_are_those_of_one_large_batch(features: Path) -> None:
    many = step_of("acoustic", features, dropout=0.0, frames_per_micro_batch=400, micro_batches_per_step=99)
    one = step_of("acoustic", features, dropout=0.0, frames_per_micro_batch=9999, micro_batches_per_step=1)
    assert len(many.recipe.plan.steps(0)[0]) > 4
    assert len(one.recipe.plan.steps(0)[0]) == 1
    first, second = gradients_of(many), gradients_of(one)
    assert (first - second).norm() < 1e-4 * first.norm()
