"""Where a step's time goes, and which cause is named for a loader that is waited for."""

import json
import re
import time
from pathlib import Path

import pytest
import torch

from sonorant.data.batches import Batch
from sonorant.data.plan import MicroBatch
from sonorant.errors import SonorantError
from sonorant.families.parallel.training import AcousticRecipe
from sonorant.training.config import DataConfig
from sonorant.training.run_directory import RunDirectory, read_metrics
from sonorant.training.telemetry import loading, meter
from sonorant.training.telemetry.loading import Cost
from sonorant.training.telemetry.meter import DeviceLoad, fragmentation_warning
from sonorant.training.telemetry.profile import parse_steps
from sonorant.training.telemetry.stopwatch import Stopwatch
from sonorant.training.trainer import Trainer
from tests.support.tiny_training import settings, tiny_recipe
from tests.support.trainings import Training
from tests.training.disturbed_worker import Delayed
from tests.training.trainings import ALONE


def test_two_ranks_account_for_all_their_time_and_trace_the_steps_asked_for(features: Path, tmp_path: Path) -> None:
    copies = {"preload": "folder", "preload_folder": str(tmp_path / "copies")}
    training = Training("acoustic", features, tmp_path, {"profile": "3:4", "data": copies}, steps=8, log_every=2)
    training.finish(2)
    rows = [row["metrics"] for row in read_metrics(training.run.metrics) if "time/data" in row["metrics"]]
    assert len(rows) == 4
    phases = ("data", "transfer", "forward", "backward", "communication", "optimizer", "rest")
    for row in rows:
        for rank in (0, 1):
            shares = {name.split("/")[2]: value for name, value in row.items() if name.startswith(f"time/rank{rank}/")}
            assert set(phases) <= shares.keys()
            assert all(value >= 0 for value in shares.values())
            shares.pop("communication_hidden", None)
            assert sum(shares.values()) == pytest.approx(1.0, abs=0.05)
        assert row["time/forward"] == pytest.approx((row["time/rank0/forward"] + row["time/rank1/forward"]) / 2)
    assert any(row["time/rank0/communication"] > 0 for row in rows)
    for rank in (0, 1):
        trace = json.loads((training.run.path / "profile" / f"rank{rank}-steps-3-4.json").read_text())
        steps = {event["name"] for event in trace["traceEvents"] if re.match(r"ProfilerStep#", event.get("name", ""))}
        assert len(steps) == 2
    assert len(list((tmp_path / "copies").glob("*/mels.npy"))) == 1


class Slow(AcousticRecipe):
    """Whose batches take long, in one of two ways."""

    reads = False

    def dataset(self, batches: list[MicroBatch]) -> torch.utils.data.Dataset[Batch]:
        def wait(index: int) -> None:
            start = time.perf_counter()
            time.sleep(0.2)
            if self.reads:
                self.store.seconds_reading += time.perf_counter() - start

        return Delayed(super().dataset(batches), wait)


@pytest.mark.parametrize(
    ("reads", "workers", "cause"),
    [(True, 0, "storage"), (False, 0, "transforms"), (False, 1, "workers"), (True, 1, "storage")],
)
def test_a_loader_that_is_waited_for_is_named_once_with_its_cause(
    reads: bool, workers: int, cause: str, features: Path, tmp_path: Path, alone: None, capfd: pytest.CaptureFixture
) -> None:
    recipe = Slow(*settings("acoustic", steps=4, checkpoint_every=4, log_every=2), features)
    recipe.reads = reads
    Trainer(recipe, ALONE, RunDirectory(tmp_path), "f", DataConfig(workers=workers)).train()
    said = [line for line in capfd.readouterr().err.splitlines() if "waiting for data" in line]
    assert len(said) == 1
    assert said[0].startswith("warning: rank 0: ") and f"waiting for data. {cause}: " in said[0]


def test_workers_are_told_apart_by_what_they_lacked() -> None:
    def named(workers: int, cores: int, **cost: float) -> str:
        return loading.cause_of_waiting(Cost(**cost), 10.0, workers, cores)[1]

    assert "too few; raise data.workers" in named(2, 8, transforming=19.0, computing=19.0)
    assert "more than 2 cores can do" in named(2, 2, transforming=19.0, computing=19.0)
    assert "had a core for only 5.00 s" in named(8, 2, transforming=60.0, computing=5.0)
    assert "starts them anew" in named(4, 8, transforming=2.0, computing=2.0)
    assert "3 pages from disk" in named(4, 8, reading=5.0, transforming=2.0, faults=3.0)


def test_many_ranks_have_one_largest_value_and_its_owner_each() -> None:
    figures = [{"data": 0.01 * rank} for rank in range(9)]
    assert meter.by_rank("time", figures) == {"time/largest/data": pytest.approx(0.08), "time/largest_rank/data": 8.0}
    assert len(meter.by_rank("time", figures[:8])) == 8
    assert meter.mean_over_ranks(figures) == {"data": pytest.approx(0.04)}


def test_a_cpu_says_nothing_of_a_gpu_and_fragments_are_worth_a_warning_above_the_limit() -> None:
    assert DeviceLoad(torch.device("cpu")).read() == {}
    assert fragmentation_warning({"fragmentation": 0.30, "reserved_gib": 10.0}) is None
    assert "expandable_segments" in str(fragmentation_warning({"fragmentation": 0.31, "reserved_gib": 10.0}))


@pytest.mark.parametrize("steps", ["5", "5:4", "0:3", "a:b", "1:51", ""])
def test_a_range_of_steps_that_is_none_is_refused(steps: str) -> None:
    with pytest.raises(SonorantError, match="give FIRST:LAST"):
        parse_steps(steps)


def test_a_trace_of_steps_that_are_not_trained_is_refused(features: Path, tmp_path: Path, alone: None) -> None:
    recipe = tiny_recipe("acoustic", features, steps=4)
    with pytest.raises(SonorantError, match="--profile 3:9: this training goes from step 1 to step 4"):
        Trainer(recipe, ALONE, RunDirectory(tmp_path), "f", profile="3:9").train()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpus_own_clock_times_what_the_host_does_not_wait_for() -> None:
    watch, matrix = Stopwatch(torch.device("cuda")), torch.ones(4096, 4096, device="cuda")
    with watch("forward"):
        for _ in range(50):
            matrix = matrix @ matrix * 1e-4
    wall, shares = watch.read()
    assert 0.5 < shares["forward"] <= 1.0
    assert wall > 0
    row = DeviceLoad(torch.device("cuda")).read()
    assert row["reserved_gib"] > 0 and 0 <= row["fragmentation"] < 1
