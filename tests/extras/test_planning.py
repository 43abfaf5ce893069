import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from sonorant.errors import SonorantError
from sonorant.extras.planning import probe
from sonorant.extras.planning.estimate import REACHED, estimate, on_gpu, step_time
from sonorant.extras.planning.forecast import advice, forecast, table
from sonorant.extras.planning.hardware import GPUS, Fleet
from sonorant.extras.planning.probe import Needs, Speed, needs_of
from sonorant.extras.planning.work import Work, work_of
from sonorant.training import memory
from tasks.plan import job_of, main
from testbed.tiny_training import settings, tiny_features, tiny_job, tiny_recipe
from tests.support.command import error_line, run_command
from tests.support.imports import ROOT
from tests.support.settings import project_settings
from tests.support.waiting import PATIENCE


@pytest.fixture(scope="module")
def features(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_features(tmp_path_factory.mktemp("features"))


def test_work_is_counted_as_it_is() -> None:
    a, b = torch.randn(8, 16, requires_grad=True), torch.randn(16, 4)
    work = work_of(lambda: torch.autograd.grad((a @ b).sum(), a))
    assert work.flops == 2 * (2 * 8 * 16 * 4), "the product, and its gradient for one factor"
    assert work.bytes >= 4 * (8 * 16 + 16 * 4 + 8 * 4)
    assert work_of(lambda: b.t()[0]) == Work(flops=0, bytes=0, operations=0), "views move nothing"


class OfAParameter(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight, self.inner = torch.nn.Parameter(torch.ones(4, 8)), torch.nn.Linear(8, 16, bias=False)

    def forward(self) -> torch.Tensor:
        return self.inner(self.weight)


def test_work_is_counted_where_a_module_is_given_a_parameter() -> None:
    module = OfAParameter()
    work = work_of(lambda: torch.autograd.grad(module().sum(), list(module.parameters())))
    assert work.flops == 3 * 2 * 4 * 8 * 16, "the product, and its gradient for both factors"


@pytest.mark.parametrize(
    ("kind", "budget"),
    [("acoustic", {"frames_per_micro_batch": 800}), ("language_model", {"frames_per_micro_batch": "auto"})],
)
def test_memory_by_component_is_what_training_holds(kind: str, budget: dict, features: Path, tmp_path: Path) -> None:
    needs = needs_of(tiny_job(kind, features, tmp_path, **budget))
    count = sum(parameter.numel() for parameter in tiny_recipe(kind, features).model.parameters())
    assert sum(needs.parameters.values()) == count
    assert (needs.bytes["gradients"], needs.bytes["optimizer"]) == (4 * count, 8 * count)
    assert [needs.budget] == [needs.largest if size == "auto" else size for size in budget.values()]
    assert needs.work.flops > 6 * count, "forward and backward, each weight used more than once"
    if kind == "acoustic":
        assert needs.bytes["activations"] > 800 * 16 * 4, "more than one layer of the heaviest micro-batch"


def test_what_is_not_trained_here_or_has_no_codes_is_not_planned(tmp_path: Path) -> None:
    with pytest.raises(SonorantError, match="give --codes"):
        job_of("language_model", ROOT / "params.yaml", tmp_path)
    sections = project_settings()
    sections["codec"]["pretrained"] = "some/codec"
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(sections), encoding="utf-8")
    with pytest.raises(SonorantError, match="'some/codec', which is used without training; plan another model"):
        job_of("codec", tmp_path / "params.yaml", tmp_path)


NEEDS = Needs(
    parameters={"encoder": 1000, "decoder": 2000},
    bytes={"weights": 2**20, "gradients": 2**20, "optimizer": 2**21, "average": 2**20, "activations": 2**30},
    device=torch.device("cpu"),
    allowed=2**34,
    budget=1000,
    largest=4000,
    bounded=False,
    work=Work(flops=10**12, bytes=10**10, operations=1000),
    frames_a_step=1000.0,
    seconds_per_frame=0.01,
)
SPEED = Speed(
    processes=2,
    seconds_per_step=0.5,
    shares={"data": 0.01, "backward": 0.6},
    validation=3.0,
    checkpoint=1.0,
    start=20.0,
)


def planned(tmp_path: Path, **given: Any) -> dict[str, Any]:
    wanted = {"steps": 7200, "price": None, "watts": None} | given
    job = tiny_job("acoustic", tmp_path, tmp_path, precision="bf16", validate_every=1000, checkpoint_every=7200)
    return forecast(job, NEEDS, SPEED, **wanted)


def estimated(
    name: str, tmp_path: Path, needs: Needs = NEEDS, price: float | None = None, **fleet: Any
) -> dict[str, Any]:
    job = tiny_job("acoustic", tmp_path, tmp_path, precision="bf16")
    return estimate(job, needs, Fleet(gpu=name, **fleet), 1000, price)


def test_another_gpu_is_estimated_without_measuring(
    features: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "find_budget", None)
    job, gpu = tiny_job("acoustic", features, tmp_path, frames_per_micro_batch="auto"), GPUS["rtx3060"]
    counted = replace(needs_of(job, gpu), largest=2000)
    fitted = on_gpu(job, counted, gpu, auto=True)
    assert (fitted.budget, on_gpu(job, counted, gpu, auto=False).budget) == (2000, counted.budget)
    assert fitted.work.flops == pytest.approx(2000 / counted.budget * counted.work.flops)
    assert {"rtx2080ti", "rtx3060", "rtx3090", "rtx5090"} <= GPUS.keys()
    monkeypatch.setattr(probe, "speed_of", None)
    monkeypatch.setattr(sys, "argv", ["plan", "acoustic", "--features", str(features), "--gpu", "RTX 3060"])
    main()


def test_a_gpu_too_small_for_weights_and_optimizer_is_named(tmp_path: Path) -> None:
    huge = replace(NEEDS, bytes=NEEDS.bytes | {"optimizer": 2**40})
    assert "none fits" in str(estimated("t4", tmp_path, huge)["largest_micro_batch"])


def test_time_energy_and_cost_follow_from_speed_and_options(tmp_path: Path) -> None:
    until = planned(tmp_path, price=3.0, watts=200.0)["until_the_end"]
    assert until["seconds"] == {"steps": 3600.0, "validations": 24.0, "checkpoints": 1.0, "start": 20.0}
    assert until["hours"] == pytest.approx(3645 / 3600)
    assert (until["kwh"], until["cost"]) == pytest.approx((0.2 * until["hours"], 3.0 * until["hours"]))
    plan = planned(tmp_path)
    assert plan["speed"]["audio_seconds_per_second"] == 20.0
    assert (plan["until_the_end"]["kwh"], plan["until_the_end"]["cost"]) == ("not given: --watts", "not given: --price")
    assert "ESTIMATE" not in table(plan)


@pytest.mark.parametrize("count", [1, 8])
def test_an_estimate_is_labelled_and_exceeds_no_peak(count: int, tmp_path: Path) -> None:
    for name, gpu in GPUS.items():
        found = estimated(name, tmp_path, price=2.0, gpus=count)
        assert (found["kind"], found["source"]) == ("estimate", gpu.source)
        assert found["steps_per_second"] <= count * gpu.half / NEEDS.work.flops
        assert found["steps_per_second"] <= count * gpu.bandwidth / NEEDS.work.bytes
        assert found["hours_expected"] >= found["hours"]
        assert found["cost"] == pytest.approx(2.0 * count * found["hours_expected"])
        assert ("do not support bf16" in found["note"]) == (not gpu.bf16)
        assert ("micro_batches_per_step to 8" in found["note"]) == (count == 8)
    assert "ESTIMATE" in table(planned(tmp_path) | {"estimate": found})


def test_fp32_is_estimated_without_tensor_cores() -> None:
    fleet = Fleet(gpu="a100-80gb")
    fp32, bf16 = (step_time(fleet, NEEDS, precision, 2).arithmetic for precision in ("fp32", "bf16"))
    assert fp32 / bf16 == pytest.approx(312 / 19.5)


def test_averaging_is_a_ring_within_then_between_machines() -> None:
    size = 100 * 2**20
    assert Fleet(gpu="h100").averaging(size) == 0.0
    within = 2 * 7 / 8 * size / 450e9 + 4 * 2 * 7 * 5e-6  # four buckets
    assert Fleet(gpu="h100", gpus=8).averaging(size) == pytest.approx(within)
    between = Fleet(gpu="h100", machines=2, link="ethernet-1g").averaging(size)
    assert between == pytest.approx(size / 0.125e9 + 4 * 2 * 50e-6)
    assert Fleet(gpu="h100", gpus=8, machines=2, link="ethernet-1g").averaging(size) == pytest.approx(within + between)


def test_averaging_is_hidden_by_the_backward_pass_as_far_as_it_lasts() -> None:
    heavy = replace(NEEDS, bytes=NEEDS.bytes | {"gradients": 200 * 2**20})
    fast, slow = (step_time(Fleet(gpu="a6000", gpus=1, machines=2, link=link), heavy, "bf16", 2) for link in
                  ("infiniband-ndr", "ethernet-1g"))  # fmt: skip
    assert fast.best == fast.computing and fast.averaging > 0
    assert slow.best == pytest.approx(slow.averaging + slow.computing / 3)
    assert slow.expected == pytest.approx(slow.averaging + slow.computing / REACHED / 3)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("acoustic", "--features", ".", "--gpus", "2"), "give --gpu too"),
        (("acoustic", "--features", ".", "--gpu", "l4", "--gpus", "0"), "--gpus 0: give a number above 0"),
        (("acoustic", "--features", ".", "--steps", "0"), "--steps 0: give a number above 0"),
        (("acoustic", "--features", "nope"), "nope: no such file or folder; correct the path"),
        (("acoustic", "--features", ".", "--gpu", "RTX 3091"), "--gpu RTX 3091: unknown; did you mean 'rtx3090"),
    ],
)
def test_what_the_command_cannot_plan_is_one_line(words: tuple[str, ...], says: str) -> None:
    assert says in error_line(run_command("tasks.plan", *words))


@pytest.mark.parametrize(
    ("precision", "shares", "expected"),
    [
        ("bf16", {}, []),
        ("fp32", {}, ["train_acoustic.precision: bf16"]),
        ("bf16", {"data": 0.1}, ["10% of a step is spent waiting for data"]),
        ("bf16", {"communication": 0.4}, ["40% of a step is communication"]),
        ("bf16", {"optimizer": 0.3}, ["the optimizer takes 30%"]),
    ],
)
def test_what_would_help_follows_from_what_was_measured(
    precision: str, shares: dict[str, float], expected: list[str], tmp_path: Path
) -> None:
    job = tiny_job("acoustic", tmp_path, tmp_path, precision=precision)
    found = advice(job, NEEDS, replace(SPEED, processes=64, seconds_per_step=1.0, shares=shares))
    assert all(words in line for words, line in zip(expected, found, strict=True))


def test_a_plan_says_the_learning_rate_that_its_batch_has(tmp_path: Path) -> None:
    """2 micro-batches of 1000 frames: four times the reference batch."""
    job = tiny_job("acoustic", tmp_path, tmp_path, learning_rate_batch=500)
    plan = forecast(job, NEEDS, SPEED, steps=1000, price=None, watts=None)
    assert plan["micro_batch"]["learning_rate"] == pytest.approx(0.004)
    assert planned(tmp_path)["micro_batch"]["learning_rate"] == 0.002, "learning_rate_batch is null"


@pytest.mark.long
def test_the_command_plans_a_real_training(features: Path, tmp_path: Path) -> None:
    sections = project_settings()
    for name in ("acoustic", "train_acoustic"):
        tiny = settings("acoustic", steps=600)[name.startswith("train")]
        sections[name] |= {**tiny, "frames_per_micro_batch": "auto"} if name.startswith("train") else tiny
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(sections), encoding="utf-8")
    command = [sys.executable, "-m", "sonorant.cli.main", "plan", "acoustic", "--params", str(tmp_path / "params.yaml"),
               "--features", str(features), "--probe-steps", "3", "--price", "2.5", "--json"]  # fmt: skip
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["micro_batch"]["budget"] == found["micro_batch"]["largest"] > 0
    until = found["until_the_end"]
    assert until["seconds"]["steps"] == pytest.approx(600 / found["speed"]["steps_per_second"])
    assert until["hours"] == pytest.approx(sum(until["seconds"].values()) / 3600)
    assert all(seconds > 0 for seconds in until["seconds"].values())
    assert until["cost"] == pytest.approx(2.5 * until["hours"])
    assert sum(found["speed"]["shares"].values()) > 0.5
    assert list((ROOT / "runs").glob("plan*")) == []


def test_the_command_names_the_folder_to_run_it_in(tmp_path: Path) -> None:
    line = error_line(run_command("sonorant.cli.main", "plan", "acoustic", cwd=tmp_path))
    assert line.startswith("sonorant plan: needs the pipeline; run it in the project folder")
