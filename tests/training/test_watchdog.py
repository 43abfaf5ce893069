import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sonorant.training.config import MachineConfig
from sonorant.training.distributed.watchdog import Watchdog, Whereabouts, culprits
from sonorant.training.run_directory import RunDirectory, read_metrics
from sonorant.training.telemetry.stopwatch import Stopwatch
from tests.support.trainings import Training, ranks_of
from tests.support.waiting import PATIENCE
from tests.training.trainings import ALONE, newest_state

HASTY = {"stall_warning": 5.0, "stall_limit": 10.0}
"""A rank counts as silent after four seconds."""


def at(rank: int, phase: str, idle: float, *, step: int = 7, silent: bool = False) -> Whereabouts:
    return Whereabouts(rank=rank, host="here", step=step, phase=phase, idle=idle, silent=silent)


def named(*ranks: Whereabouts) -> list[int]:
    return [one.rank for one in culprits(list(ranks), 60.0)]


def test_the_rank_that_the_others_wait_for_is_the_one_that_is_named() -> None:
    assert named(at(0, "backward", 61), at(1, "data", 62)) == [1]
    assert named(at(0, "checkpoint", 61), at(1, "communication", 70)) == [0]
    # Rank 1 may still report.
    assert named(at(0, "backward", 100), at(1, "backward", 20, silent=True), at(2, "data", 80)) == []
    assert named(at(0, "backward", 100), at(1, "backward", 90, silent=True)) == [1]
    assert named(at(0, "data", 65), at(1, "data", 64), at(2, "backward", 64)) == [0, 1]
    # On a GPU rank 0 runs ahead of its kernels.
    assert named(at(0, "forward", 65, step=8), at(1, "data", 61, step=7)) == [1]
    assert named(at(0, "backward", 65), at(1, "backward", 64)) == [0, 1]


def test_who_makes_progress_is_not_named_however_long_the_others_wait_for_it() -> None:
    assert named(at(0, "communication", 500), at(1, "validation", 3)) == []
    assert named(at(0, "data", 59), at(1, "data", 59)) == []
    assert named(at(0, "backward", 500), at(1, "backward", 3)) == []


def hasty(features: Path, folder: Path, steps: int, checkpoint_every: int = 10**6) -> Training:
    changes = {"steps": steps, "validate_every": steps, "checkpoint_every": checkpoint_every}
    return Training("acoustic", features, folder, {"machine": HASTY}, **changes)


@pytest.mark.long
def test_a_loader_that_hangs_is_named_and_the_training_ends_to_be_resumed(features: Path, tmp_path: Path) -> None:
    training = hasty(features, tmp_path, 60, checkpoint_every=2)
    error = training.failed(training.start(2, DISTURBED="hanging_loader"))
    words = r"error: rank 1 on \S+ has made no progress for (\d+) s, in phase data \(step (\d+)\): its loader .*"
    assert (said := re.fullmatch(words, error)), error
    assert int(said[1]) >= HASTY["stall_limit"]
    assert "warning: rank 1 on" in training.said()
    stacks = (training.run.path / "stall-rank-1.txt").read_text()
    assert "disturbed_worker.py" in stacks and "__getitem__" in stacks
    status = training.run.status()
    assert status["state"] == "failed" and status["message"].startswith("rank 1 on")
    assert newest_state(training.run.path)["step"] >= int(said[2]) - 1


@pytest.mark.long
@pytest.mark.parametrize("stopped", [0, 1])
def test_a_rank_that_is_stopped_is_named(stopped: int, features: Path, tmp_path: Path) -> None:
    """Including rank 0, which holds the store."""
    training = hasty(features, tmp_path, 5000)
    agent = training.start(2)
    training.wait_for(lambda: len(read_metrics(training.run.metrics)) > 20, agent)
    ranks = ranks_of(agent)
    ranks[stopped].send_signal(signal.SIGSTOP)
    training.wait_for(lambda: "error: " in training.said(), agent)
    ranks[stopped].send_signal(signal.SIGCONT)  # otherwise torchrun waits half a minute
    error = training.failed(agent)
    words = rf"error: rank {stopped} on \S+ has not responded for \d+ s, last seen in phase \w+ \(step \d+\)"
    assert re.match(words, error), error
    assert training.run.status()["state"] == "failed"


@pytest.mark.long
def test_a_training_that_was_suspended_as_a_whole_goes_on(features: Path, tmp_path: Path) -> None:
    """Slurm's preemption does this."""
    training = hasty(features, tmp_path, 100_000)
    agent = training.start(2)
    training.wait_for(lambda: len(read_metrics(training.run.metrics)) > 20, agent)
    ranks = ranks_of(agent)
    for rank in ranks.values():
        rank.send_signal(signal.SIGSTOP)
    time.sleep(HASTY["stall_limit"] + 1)
    for rank in ranks.values():
        rank.send_signal(signal.SIGCONT)
    before = len(read_metrics(training.run.metrics))
    time.sleep(HASTY["stall_limit"])
    training.wait_for(lambda: len(read_metrics(training.run.metrics)) > before + 1, agent)
    agent.send_signal(signal.SIGTERM)
    agent.wait(PATIENCE)
    assert training.run.status()["state"] == "stopped", training.said()


def test_a_rank_back_from_a_suspension_does_not_report_the_time_it_slept(tmp_path: Path) -> None:
    stopwatch, run = Stopwatch(), RunDirectory(tmp_path)
    stopwatch.current = "forward", time.monotonic() - 100
    watchdog = Watchdog(ALONE, stopwatch, lambda: 7, MachineConfig(**HASTY), run)
    watchdog._connect()
    watchdog._awake, watchdog._ticked = 0.0, time.monotonic() - 100
    watchdog._done.set()
    watchdog._exchange()
    assert json.loads(watchdog._store.get("watchdog/0"))["idle"] < 1


HANGING = """
import os, sys, time
from pathlib import Path
from sonorant.training.config import MachineConfig
from sonorant.training.distributed.watchdog import Watchdog
from sonorant.training.run_directory import RunDirectory
from sonorant.training.telemetry.stopwatch import Stopwatch
from tests.training.trainings import ALONE

run = Path(sys.argv[1])
os.mkfifo(run / "stall-rank-0.txt")  # whoever opens it waits for ever, as for a disk that hangs
stopwatch = Stopwatch()
with Watchdog(ALONE, stopwatch, lambda: 7, MachineConfig(stall_warning=0.5, stall_limit=1.0), RunDirectory(run)):
    with stopwatch("checkpoint"):
        time.sleep(600)
"""


def test_a_disk_that_hangs_does_not_hold_the_watchdog_up(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HANGING, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 1
    assert re.search(r"error: rank 0 on \S+ has made no progress .* in phase checkpoint", done.stderr), done.stderr
