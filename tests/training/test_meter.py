import json
import re
import time
from pathlib import Path

import pytest
import torch

from sonorant.errors import SonorantError
from sonorant.families.parallel.acoustic_training import AcousticRecipe
from sonorant.features.batches import Batch
from sonorant.features.plan import MicroBatch
from sonorant.training.config import DataConfig
from sonorant.training.run_directory import RunDirectory, read_metrics
from sonorant.training.step import totals_of
from sonorant.training.telemetry import meter
from sonorant.training.telemetry.device import DeviceLoad
from sonorant.training.telemetry.profile import parse_steps
from sonorant.training.telemetry.stopwatch import Stopwatch
from sonorant.training.trainer import Trainer
from testbed.tiny_training import RECIPES, settings, tiny_recipe
from tests.support.trainings import Training
from tests.training.disturbed_worker import Delayed
from tests.training.trainings import ALONE


@pytest.mark.long
def test_two_ranks_account_for_all_their_time_and_trace_the_steps_asked_for(features: Path, tmp_path: Path) -> None:
    copies = {"preload": "folder", "preload_folder": str(tmp_path / "copies")}
    training = Training("vocoder", features, tmp_path, {"profile": "3:4", "data": copies}, steps=8, log_every=2)
    training.finish(2)
    rows = [row["metrics"] for row in read_metrics(training.run.metrics) if "time/data" in row["metrics"]]
    assert len(rows) == 4
    phases = ("data", "transfer", "forward", "backward", "communication", "optimizer", "rest")
    for row in rows:
        for rank in (0, 1):
            shares = {name.split("/")[2]: value for name, value in row.items() if name.startswith(f"time/rank{rank}/")}
            assert set(phases) <= shares.keys()
            assert all(value >= 0 for value in shares.values())
            assert sum(shares.values()) == pytest.approx(1.0, abs=1e-6)
        losses = [row[f"train/loss_by_rank/rank{rank}"] for rank in (0, 1)]
        assert losses[0] != losses[1] and row["train/loss"] == pytest.approx(sum(losses) / 2)
        assert row["time/forward"] == pytest.approx((row["time/rank0/forward"] + row["time/rank1/forward"]) / 2)
    assert any(row["time/rank0/communication"] > 0 for row in rows)
    for rank in (0, 1):
        trace = json.loads((training.run.path / "profile" / f"rank{rank}-steps-3-4.json").read_text())
        steps = {event["name"] for event in trace["traceEvents"] if re.match(r"ProfilerStep#", event.get("name", ""))}
        assert len(steps) == 2
    assert len(list((tmp_path / "copies").glob("*/header.json"))) == 1


def test_a_moment_belongs_to_one_phase_and_a_reading_takes_the_open_one_so_far() -> None:
    watch = Stopwatch()
    with watch("logging"):
        time.sleep(0.2)
        _, before = watch.read()
        with watch("data"):
            time.sleep(0.2)
    _, after = watch.read()
    assert before["logging"] > 0.5 > after["logging"]
    assert after["data"] > 0.5
    assert sum(after.values()) <= 1.0 + 1e-9


@pytest.mark.parametrize("kind", RECIPES)
def test_the_losses_of_processes_are_means_of_their_own_samples_that_make_up_the_whole(
    kind: str, features: Path
) -> None:
    recipe = tiny_recipe(kind, features, micro_batches_per_step=4)
    step = recipe.plan.steps(0)[0]
    assert len(step) > 1
    terms, totals = recipe.phases[0].terms, totals_of(recipe, step)
    sums = [{name: 10.0 * place + len(name) for name in terms} for place in range(len(step))]
    shares = [{name: row[name] / totals[terms[name].unit] for name in terms} for row in sums]
    for place, micro_batch in enumerate(step):
        count = totals_of(recipe, [micro_batch])
        expected = sum(term.weight * sums[place][name] / count[term.unit] for name, term in terms.items())
        assert meter.own_loss(recipe, shares[place], step, [micro_batch]) == pytest.approx(expected)
    together = {name: sum(row[name] for row in shares) for name in terms}
    whole = sum(term.weight * together[name] for name, term in terms.items())
    assert meter.own_loss(recipe, together, step, step) == pytest.approx(whole), "one process has the step's loss"
    assert meter.own_loss(recipe, shares[0], step, []) is None


class Slow(AcousticRecipe):
    """Slow batches, in one of two ways."""

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
    recipe = Slow(*settings("acoustic", steps=10, checkpoint_every=10, log_every=2), features)
    recipe.reads = reads
    Trainer(recipe, ALONE, RunDirectory(tmp_path), "f", DataConfig(workers=workers)).train()
    said = [line for line in capfd.readouterr().err.splitlines() if "waiting for data" in line]
    assert len(said) == 1
    assert said[0].startswith("warning: rank 0: ") and f"waiting for data. {cause}: " in said[0]


@pytest.mark.parametrize("steps", ["5:4", "0:3", "1:51", ""])
def test_a_range_of_steps_that_is_none_is_refused(steps: str) -> None:
    with pytest.raises(SonorantError, match="give FIRST:LAST"):
        parse_steps(steps)


def test_a_trace_of_steps_that_are_not_trained_is_refused(features: Path, tmp_path: Path, alone: None) -> None:
    recipe = tiny_recipe("acoustic", features, steps=4)
    with pytest.raises(SonorantError, match="--profile 3:9: choose steps from 1 to 4"):
        Trainer(recipe, ALONE, RunDirectory(tmp_path), "f", profile="3:9").train()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpus_own_clock_times_what_the_host_does_not_wait_for() -> None:
    matrix = torch.ones(4096, 4096, device="cuda")
    (matrix @ matrix).sum().item()  # the first product loads libraries
    watch = Stopwatch(torch.device("cuda"))
    with watch("forward"):
        for _ in range(50):
            matrix = matrix @ matrix * 1e-4
    wall, shares = watch.read()
    assert 0.5 < shares["forward"] <= 1.0
    assert wall > 0
    row = DeviceLoad(torch.device("cuda")).read()
    assert row["reserved_gib"] > 0
    assert 0 < row["memory_share"] < 1 and row["memory_gib"] >= row["reserved_gib"] and 0 <= row["utilization"] <= 100
