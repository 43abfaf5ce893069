"""An idle, slow or hot rank is named once."""

import re
from pathlib import Path

import pytest
import torch

from sonorant.training.run_directory import read_metrics
from sonorant.training.telemetry.device import DeviceLoad
from sonorant.training.telemetry.judgement import AGAIN, IMBALANCE, LINKS, Finding, Judgement, Reading, judge
from tests.support.trainings import Training

FINE = {"data": 0.01, "forward": 0.4, "backward": 0.45, "communication": 0.08, "optimizer": 0.06}


def reading(frames: float = 1000.0, **times: float) -> Reading:
    return Reading(host="here", times=FINE | times, frames=frames, own={})


def kinds(*readings: Reading) -> list[tuple[int, str]]:
    return [(one.rank, one.kind) for one in judge(list(readings))]


def test_ranks_that_are_alike_are_fine_and_one_process_is_compared_with_nobody() -> None:
    assert kinds(reading(), reading(communication=0.1), reading()) == []
    assert kinds(reading(communication=0.9)) == []


@pytest.mark.parametrize("slow", [0, 1, 2])
def test_the_rank_that_the_others_wait_for_is_named_with_what_it_does_meanwhile(slow: int) -> None:
    waiting = reading(communication=0.5, forward=0.2, backward=0.22)
    late = reading(communication=0.02, data=0.5, forward=0.2, backward=0.2)
    [found] = judge([late if rank == slow else waiting for rank in range(3)])
    assert (found.rank, found.kind) == (slow, "slow")
    assert "keeps the others waiting for 50% of their time: data takes 50% of its time, 1% of theirs" in found.sentence
    assert "data.preload" in found.sentence


def test_a_rank_is_slow_only_beyond_the_limit_and_whatever_the_number_of_ranks() -> None:
    for ranks in (2, 3, 9):
        for beyond in (-0.01, 0.01):
            others = [reading(communication=0.05 + IMBALANCE + beyond)] * (ranks - 1)
            assert kinds(reading(communication=0.05), *others) == ([(0, "slow")] if beyond > 0 else [])


def test_a_rank_that_the_plan_gives_more_is_not_blamed_on_its_machine() -> None:
    [found] = judge([reading(2000.0, communication=0.01), reading(1000.0, communication=0.5)])
    assert "2.00 times as many frames" in found.sentence and "micro_batches_per_step" in found.sentence


def test_slow_links_are_nobodys_fault() -> None:
    [found] = judge([reading(communication=LINKS + 0.1), reading(communication=LINKS + 0.12)])
    assert found.kind == "links" and "links between the machines" in found.sentence


def test_a_rank_without_work_is_idle_and_the_others_are_not_slow_for_it() -> None:
    assert kinds(reading(), reading(), reading(0.0, communication=0.95)) == [(2, "idle")]
    assert kinds(reading(), reading(0.0, communication=0.95)) == [(1, "idle")]


def found_on_gpu(slowed: tuple[str, ...] = (), **row: float) -> dict[str, str]:
    load = DeviceLoad(torch.device("cpu"))
    load.slowed = slowed
    return load.findings(row)


def test_a_gpu_is_judged_by_its_use_its_clocks_and_its_memory() -> None:
    well = {"utilization": 95.0, "memory_share": 0.9, "temperature": 70.0}
    assert found_on_gpu(**well) == {} == found_on_gpu()
    assert "busy for 20% of the time" in found_on_gpu(**{**well, "utilization": 20.0})["gpu idle"]
    assert "96% of its GPU's memory" in found_on_gpu(**{**well, "memory_share": 0.96})["gpu memory"]
    said = found_on_gpu(("heat, by the hardware",), **{**well, "temperature": 91.0})["gpu slowed"]
    assert "throttled at 91 degrees (heat, by the hardware)" in said
    assert DeviceLoad(torch.device("cpu")).read() == {}, "a CPU says nothing of a GPU"


def a_finding(rank: int = 1, kind: str = "slow") -> Finding:
    return Finding(rank=rank, kind=kind, sentence="keeps the others waiting")


def test_a_finding_that_holds_is_printed_once() -> None:
    judgement, told = Judgement(), []
    holds = [False, True, False, True, True, True, False, False, True, True]
    for holding in holds:
        told.append(judgement.take([a_finding()] if holding else []))
    assert told[4] == ["warning: rank 1: keeps the others waiting"], "a single reading is no finding"
    assert sum(map(len, told)) == 1


def test_ranks_are_counted_by_kind_as_long_as_it_holds() -> None:
    judgement = Judgement()
    assert judgement.row() == {}
    for _ in range(AGAIN):
        judgement.take([a_finding(1), a_finding(0), a_finding(0, "gpu idle")])
    assert judgement.row() == {"health/gpu_idle": 1.0, "health/slow": 2.0}
    judgement.take([a_finding(1)])
    assert judgement.row() == {"health/gpu_idle": 0.0, "health/slow": 1.0}


def test_a_slow_rank_is_named_while_it_trains(features: Path, tmp_path: Path) -> None:
    settings = {"steps": 60, "log_every": 2, "validate_every": 60, "checkpoint_every": 60}
    training = Training("acoustic", features, tmp_path, **settings)
    said = training.finish(2, DISTURBED="slow_loader", SLOW_EPOCHS="8")
    warnings = [line for line in said.splitlines() if "keeps the others waiting" in line]
    [line] = [line for line in warnings if line.startswith("warning: rank 1")]  # a busy machine may slow the other
    expected = r"warning: rank 1: on \S+ keeps the others waiting for \d\d% of their time: data takes \d\d% of its time"
    assert re.match(expected, line), said
    rows = [row["metrics"] for row in read_metrics(training.run.metrics) if "train/loss" in row["metrics"]]
    assert "health/slow" not in rows[0], "one reading is not enough"
    assert any(row.get("health/slow") for row in rows)
