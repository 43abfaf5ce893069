from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from sonorant.training import checkpoint, precision
from sonorant.training.distributed.ranks import Ranks
from sonorant.training.precision import find_precision, half_of
from sonorant.training.step import TrainStep
from testbed.tiny_training import tiny_recipe
from tests.training.trainings import assert_same, newest_state, step_of, trainer_of

pytestmark = pytest.mark.usefixtures("alone")
Clock = Callable[[dict[str, float]], None]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """clock({"fp32": 1.0, "bf16": 0.5}) sets the pretended seconds of a micro-batch."""

    def tell(seconds: dict[str, float]) -> None:
        def measured(trained: TrainStep, batch: Any) -> float:
            trained.dry_run(batch)
            return seconds[str(trained.precision)]

        monkeypatch.setattr(precision, "_seconds", measured)

    return tell


@pytest.mark.parametrize(("bf16", "chosen"), [(0.7, "bf16"), (0.97, "fp32"), (1.3, "fp32")])
def test_half_precision_is_taken_where_it_is_worth_it(bf16: float, chosen: str, clock: Clock, features: Path) -> None:
    clock({"fp32": 1.0, "bf16": bf16})
    trained = step_of("acoustic", features, precision="auto")
    assert trained.precision is None
    why = find_precision(trained)
    assert trained.precision == chosen
    assert why == f"precision {chosen}; time per micro-batch: fp32 1000 ms, bf16 {1000 * bf16:.0f} ms"


@pytest.mark.parametrize("fits", ["bf16", "neither"])
def test_a_precision_that_does_not_fit_into_memory_is_not_taken(
    fits: str, features: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained = step_of("acoustic", features, precision="auto")

    def dry_run(batch: Any) -> None:
        if trained.precision != fits:
            raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(trained, "dry_run", dry_run)
    assert "fp32 out of memory" in find_precision(trained)
    assert trained.precision == "bf16"


def test_the_slowest_rank_decides(clock: Clock, features: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock({"fp32": 1.0, "bf16": 0.5})
    monkeypatch.setattr(Ranks, "gather", lambda self, own: [own, {"fp32": 1.1, "bf16": 1.2}])
    trained = step_of("acoustic", features, precision="auto")
    find_precision(trained)
    assert trained.precision == "fp32"


@pytest.mark.parametrize("kind", ["acoustic", "codec"])
def test_looking_for_it_changes_nothing_that_is_trained(
    kind: str, features: Path, tmp_path: Path, clock: Clock
) -> None:
    clock({"fp32": 1.0, "bf16": 0.5})
    found, told = (
        trainer_of(tiny_recipe(kind, features, steps=2, precision=name), tmp_path / name) for name in ("auto", "bf16")
    )
    assert found.train() == told.train() == "finished"
    assert_same(found.state(), told.state())


def test_a_resumed_run_keeps_what_was_found(
    features: Path, tmp_path: Path, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = tiny_recipe("acoustic", features, precision="auto", steps=4)
    clock({"fp32": 1.0, "bf16": 0.5})
    assert trainer_of(recipe, tmp_path / "run").train() == "finished"
    assert "acoustic: precision bf16; time per micro-batch: fp32 1000 ms, bf16 500 ms" in capsys.readouterr().out
    state = newest_state(tmp_path / "run")
    folder = tmp_path / "run" / "checkpoints"
    for path in checkpoint.existing(folder):
        if path != checkpoint.path_of(folder, 2):
            path.unlink()
    clock({"fp32": 1.0, "bf16": 5.0})  # other load
    again = trainer_of(tiny_recipe("acoustic", features, precision="auto", steps=4), tmp_path / "run")
    assert again.train() == "finished" and again.trained.precision == "bf16"
    assert "time per micro-batch" not in capsys.readouterr().out
    assert_same(state, newest_state(tmp_path / "run"))


def test_a_gpu_whose_tensor_cores_lack_bf16_tries_fp16(monkeypatch: pytest.MonkeyPatch) -> None:
    assert half_of(torch.device("cpu")) == "bf16"
    for capability, half in (((7, 0), "fp16"), ((7, 5), "fp16"), ((8, 0), "bf16"), ((9, 0), "bf16")):
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device, found=capability: found)
        assert half_of(torch.device("cuda:0")) == half
