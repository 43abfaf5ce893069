"""A plan's figures are measured, counted or named an estimate; what was not given is no number."""

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
from sonorant.planning.forecast import GPUS, advice, estimate, forecast, gpu_named, least_seconds, table
from sonorant.planning.probe import Needs, Speed, needs_of
from sonorant.planning.work import Work, work_of
from tasks.plan import job_of
from tests.support.imports import ROOT
from tests.support.tiny_training import settings, tiny_features, tiny_job, tiny_recipe


@pytest.fixture(scope="module")
def features(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_features(tmp_path_factory.mktemp("features"))


def test_work_is_counted_as_it_is() -> None:
    a, b = torch.randn(8, 16, requires_grad=True), torch.randn(16, 4)
    work = work_of(lambda: torch.autograd.grad((a @ b).sum(), a))
    assert work.flops == 2 * (2 * 8 * 16 * 4), "the product, and its gradient for one factor"
    assert work.bytes >= 4 * (8 * 16 + 16 * 4 + 8 * 4)
    assert work_of(lambda: b.t()[0]) == Work(flops=0, bytes=0, operations=0), "views move nothing"


@pytest.mark.parametrize(
    ("kind", "budget"),
    [
        ("acoustic", {"frames_per_micro_batch": 800}),
        ("codec", {"segments_per_micro_batch": "auto"}),
        ("language_model", {"frames_per_micro_batch": "auto"}),
    ],
)
def test_memory_by_component_is_what_training_holds(kind: str, budget: dict, features: Path, tmp_path: Path) -> None:
    needs = needs_of(tiny_job(kind, features, tmp_path, **budget))
    count = sum(parameter.numel() for parameter in tiny_recipe(kind, features).model.parameters())
    assert sum(needs.parameters.values()) == count
    assert needs.bytes["gradients"] == 4 * count
    assert needs.bytes["optimizer"] == 8 * count
    assert [needs.budget] == [needs.largest if size == "auto" else size for size in budget.values()]
    assert needs.budget > 0
    assert needs.work.flops > 6 * count, "forward and backward, each weight used more than once"
    if kind == "acoustic":
        assert needs.bytes["activations"] > 800 * 16 * 4, "more than one layer of the heaviest micro-batch"


def test_what_is_not_trained_here_or_has_no_codes_is_not_planned(tmp_path: Path) -> None:
    with pytest.raises(SonorantError, match="give --codes"):
        job_of("language_model", ROOT / "params.yaml", tmp_path)
    sections = yaml.safe_load((ROOT / "params.yaml").read_text(encoding="utf-8"))
    sections["codec"]["pretrained"] = "some/codec"
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(sections), encoding="utf-8")
    with pytest.raises(SonorantError, match="'some/codec', which is taken as it is: there is no training to plan"):
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
SPEED = Speed(processes=2, seconds_per_step=0.5, shares={"data": 0.01, "backward": 0.6})


def planned(tmp_path: Path, **given: Any) -> dict[str, Any]:
    wanted = {"steps": 7200, "price": None, "watts": None, "gpu": None} | given
    return forecast(tiny_job("acoustic", tmp_path, tmp_path, precision="bf16"), NEEDS, SPEED, **wanted)


def test_a_gpu_too_small_for_weights_and_optimizer_is_said_to_be(tmp_path: Path) -> None:
    huge = replace(NEEDS, bytes=NEEDS.bytes | {"optimizer": 2**40})
    found = estimate(tiny_job("acoustic", tmp_path, tmp_path), huge, "t4", 1000, None)
    assert "does not fit" in str(found["largest_micro_batch"])


def test_time_energy_and_cost_follow_from_speed_and_what_was_given(tmp_path: Path) -> None:
    until = planned(tmp_path, price=3.0, watts=200.0)["until_the_end"]
    assert until == {"steps": 7200, "hours": 1.0, "kwh": 0.2, "cost": 3.0}
    assert planned(tmp_path)["speed"]["audio_seconds_per_second"] == 20.0


def test_what_was_not_given_is_no_number(tmp_path: Path) -> None:
    until = planned(tmp_path)["until_the_end"]
    assert (until["kwh"], until["cost"]) == ("not given: --watts", "not given: --price")
    assert "estimate" not in planned(tmp_path)


@pytest.mark.parametrize("name", GPUS)
def test_an_estimate_is_labelled_names_its_source_and_no_peak_is_exceeded(name: str, tmp_path: Path) -> None:
    job = tiny_job("acoustic", tmp_path, tmp_path, precision="bf16")
    found = estimate(job, NEEDS, name, 1000, 2.0)
    assert (found["kind"], found["source"]) == ("estimate", GPUS[name].source)
    assert found["steps_per_second"] <= GPUS[name].half / NEEDS.work.flops
    assert found["steps_per_second"] <= GPUS[name].bandwidth / NEEDS.work.bytes
    assert found["cost"] == pytest.approx(2.0 * found["hours"])
    assert bool(found["note"]) == (name == "t4"), "which has no bf16"
    assert "ESTIMATE" in table(planned(tmp_path, gpu=name))


def test_fp32_is_estimated_without_tensor_cores() -> None:
    gpu = GPUS["a100-80gb"]
    fp32, bf16 = (least_seconds(gpu, NEEDS.work, precision)["arithmetic"] for precision in ("fp32", "bf16"))
    assert fp32 / bf16 == pytest.approx(312 / 19.5)


def test_an_unknown_gpu_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(SonorantError, match=r"no GPU 'a1000' .* known: a100-80gb, h100"):
        gpu_named("a1000")


@pytest.mark.parametrize(
    ("precision", "shares", "expected"),
    [
        ("bf16", {}, []),
        ("fp32", {}, ["train_acoustic.precision: bf16"]),
        ("bf16", {"data": 0.1}, ["10% of a step waits for data"]),
        ("bf16", {"communication": 0.4}, ["40% of a step is communication"]),
        ("bf16", {"optimizer": 0.3}, ["the optimizer takes 30%"]),
    ],
)
def test_what_would_help_follows_from_what_was_measured(
    precision: str, shares: dict[str, float], expected: list[str], tmp_path: Path
) -> None:
    job = tiny_job("acoustic", tmp_path, tmp_path, precision=precision)
    found = advice(job, NEEDS, Speed(processes=64, seconds_per_step=1.0, shares=shares))
    assert all(words in line for words, line in zip(expected, found, strict=True))


@pytest.mark.long
def test_the_command_plans_a_real_training(features: Path, tmp_path: Path) -> None:
    sections = yaml.safe_load((ROOT / "params.yaml").read_text(encoding="utf-8"))
    for name in ("acoustic", "train_acoustic"):
        tiny = settings("acoustic", steps=600)[name.startswith("train")]
        sections[name] |= {**tiny, "frames_per_micro_batch": "auto"} if name.startswith("train") else tiny
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(sections), encoding="utf-8")
    command = [sys.executable, "-m", "sonorant.cli", "plan", "acoustic", "--params", str(tmp_path / "params.yaml"),
               "--features", str(features), "--probe-steps", "3", "--price", "2.5", "--json"]  # fmt: skip
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["micro_batch"]["budget"] == found["micro_batch"]["largest"] > 0
    assert found["until_the_end"]["hours"] == pytest.approx(600 / found["speed"]["steps_per_second"] / 3600)
    assert found["until_the_end"]["cost"] == pytest.approx(2.5 * found["until_the_end"]["hours"])
    assert sum(found["speed"]["shares"].values()) > 0.5
    assert list((ROOT / "runs").glob("plan*")) == []


def test_the_command_says_where_to_stand(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sonorant.cli", "plan", "acoustic", "--features", "features"]
    done = subprocess.run(command, cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("error: sonorant plan: needs the pipeline; run it in the folder with params.yaml")
