import re
from pathlib import Path

import pytest
import torch

from sonorant.training.run_directory import read_metrics
from sonorant.training.telemetry.device import DeviceLoad
from sonorant.training.telemetry.judgement import IMBALANCE, Judgement, Reading, judge
from tests.support.trainings import Training

FINE = {"data": 0.01, "forward": 0.4, "backward": 0.45, "communication": 0.08, "optimizer": 0.06}
SLOW = (1, "slow")


def reading(frames: float = 1000.0, **times: float) -> Reading:
    return Reading(host="here", times=FINE | times, frames=frames, load={}, loss=None, cores=0.0, own={})


@pytest.mark.parametrize(
    ("readings", "found"),
    [
        ([reading(), reading(communication=0.1), reading()], []),
        ([reading(communication=0.9)], []),
        *(
            (
                [reading(communication=0.05), *[reading(communication=0.05 + IMBALANCE + more)] * others],
                [(0, "slow")][:n],
            )
            for others in (1, 8)
            for more, n in ((-0.01, 0), (0.01, 1))
        ),
        ([reading(), reading(), reading(0.0, communication=0.95)], [(2, "idle")]),
        ([reading(), reading(0.0, communication=0.95)], [(1, "idle")]),
    ],
)
def test_a_rank_that_the_others_wait_for_is_slow_and_one_without_work_idle(
    readings: list[Reading], found: list[tuple[int, str]]
) -> None:
    assert list(judge(readings)) == found


@pytest.mark.parametrize("slow", [0, 1, 2])
def test_a_slow_rank_is_named_with_the_phase_that_takes_longer(slow: int) -> None:
    waiting = reading(communication=0.5, forward=0.2, backward=0.22)
    late = reading(communication=0.02, data=0.5, forward=0.2, backward=0.2)
    found = judge([late if rank == slow else waiting for rank in range(3)])
    words = "keeps the others waiting for 50% of their time: data takes 50% of its time, 1% of theirs; .* data.preload"
    assert re.search(words, found[slow, "slow"])


def test_a_rank_that_the_plan_gives_more_is_not_blamed_on_its_machine() -> None:
    found = judge([reading(2000.0, communication=0.01), reading(1000.0, communication=0.5)])
    assert "2.00 times as many frames" in found[0, "slow"] and "micro_batches_per_step" in found[0, "slow"]


def test_a_gpu_is_judged_by_its_use_its_clocks_and_its_memory() -> None:
    load = DeviceLoad(torch.device("cpu"))
    well = {"utilization": 95.0, "memory_share": 0.9}
    assert load.read() == load.findings({}) == load.findings(well) == {}
    load.slowed = ["heat, by the hardware"]
    found = load.findings({"utilization": 20.0, "memory_share": 0.96})
    words = "busy for 20% of the time", "throttled (heat, by the hardware)", "96% of its GPU's memory"
    assert all(said in sentence for said, sentence in zip(words, found.values(), strict=True))


def test_a_finding_that_holds_is_printed_once_and_counted_as_long_as_it_holds() -> None:
    judgement, said, counts = Judgement(), [], []
    for holds in (False, True, False, True, True, True, False, False, True, True, *[False] * 6):
        said.append(judgement.take({SLOW: "waits", (0, "slow"): "waits"} if holds else {}))
        counts.append(judgement.row().get("health/slow"))
    assert said[8] == ["warning: rank 1: waits", "warning: rank 0: waits"], "a few readings are no finding"
    assert sum(map(len, said)) == 2
    assert counts == [None] * 8 + [2] * 5 + [0] * 3


@pytest.mark.long
def test_a_slow_rank_is_named_while_it_trains(features: Path, tmp_path: Path) -> None:
    settings = {"steps": 60, "log_every": 2, "validate_every": 60, "checkpoint_every": 60}
    training = Training("acoustic", features, tmp_path, **settings)
    said = training.finish(2, DISTURBED="slow_loader", SLOW_EPOCHS="8")
    warnings = [line for line in said.splitlines() if "keeps the others waiting" in line]
    [line] = [line for line in warnings if line.startswith("warning: rank 1")]  # a busy machine may slow the other
    expected = r"warning: rank 1: on \S+ keeps the others waiting for \d\d% of their time: data takes \d\d% of its time"
    assert re.match(expected, line), said
    rows = [row["metrics"] for row in read_metrics(training.run.metrics)]
    assert any(row.get("health/slow") for row in rows)
