import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from sonorant.errors import SonorantError
from sonorant.files import write_json
from sonorant.training.run_directory import RunDirectory
from sonorant.training.watch import QUIET, find_run, look, watch
from tests.support.command import error_line, run_command
from tests.support.imports import ROOT
from tests.support.trainings import Training
from tests.support.waiting import PATIENCE


def a_run(folder: Path, state: str = "running", **status: Any) -> RunDirectory:
    """A row every 10 steps and 5 seconds, a checkpoint at step 20, and a slow rank."""
    run = RunDirectory(folder)
    folder.mkdir(parents=True, exist_ok=True)
    write_json(run.job, {"recipe": "acoustic", "train": {"steps": 200}})
    start = time.time() - 25
    with run.metrics.open("w") as file:
        for number in range(1, 6):
            row = {"train/loss": 1 / number, "health/slow": 1.0, "health/idle": 0.0}
            file.write(json.dumps({"step": 10 * number, "time": start + 5 * number, "metrics": row}) + "\n")
    run.write_status(state, status.get("step", 20), status.get("message", ""))
    return run


def test_a_line_holds_state_speed_time_left_and_findings(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    run.lock()
    run.write_status("running", 20)
    state, line = look(run)
    assert state == "running"
    assert line == (
        "acoustic 50/200 running, loss 0.2000, 2.00 steps/s, 0:01:15 left, slow: 1 ranks, checkpoint at step 20"
    )


@pytest.mark.parametrize(
    ("state", "message", "status"), [("finished", "", 0), ("stopped", "", 75), ("failed", "the disk is full", 1)]
)
def test_the_end_of_a_training_is_the_exit_status(
    state: str, message: str, status: int, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    a_run(tmp_path, state, message=message)
    assert watch(tmp_path) == watch(tmp_path, once=True) == status
    said = capsys.readouterr().out
    assert f"/200 {state}, loss 0.2000" in said and message in said


def test_a_training_whose_process_is_gone_is_killed_and_one_that_is_resumed_is_starting(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    for file in tmp_path.iterdir():
        os.utime(file, (time.time() - QUIET - 1,) * 2)
    assert look(run)[0] == "killed" and watch(tmp_path) == 1
    write_json(tmp_path / "status.json", {"state": "stopped", "step": 20, "message": "", "time": time.time() - 100})
    assert look(run)[0] == "stopped"
    run.lock()
    assert look(run)[0] == "starting", "the status is that of the training before"
    run.write_status("running", 20)
    assert look(run)[0] == "running" and watch(tmp_path, once=True) == 0


def test_the_run_at_work_is_found_below_a_folder_and_else_the_newest(tmp_path: Path) -> None:
    old, new = a_run(tmp_path / "a" / "1"), a_run(tmp_path / "b" / "2")
    for file in old.path.iterdir():
        os.utime(file, (1, 1))
    assert find_run(tmp_path) == new.path
    old.lock()
    assert find_run(tmp_path) == find_run(old.path) == old.path


def test_a_folder_without_a_training_is_refused_in_one_line(tmp_path: Path) -> None:
    for folder, says in (tmp_path, "no training has started here"), (tmp_path / "nowhere", "no such folder"):
        with pytest.raises(SonorantError, match=says):
            watch(folder)


def test_a_damaged_status_and_a_bad_interval_are_refused(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    (run.path / "status.json").write_text("{")
    assert "status.json" in error_line(run_command("sonorant.cli.main", "watch", tmp_path))
    done = run_command("sonorant.cli.main", "watch", tmp_path, "--interval", "0")
    assert done.returncode == 2 and "0 is not a positive number of seconds" in done.stderr


def test_a_real_training_is_watched_from_outside_to_its_end(features: Path, tmp_path: Path) -> None:
    training = Training("acoustic", features, tmp_path, steps=12, checkpoint_every=12, validate_every=12)
    agent = training.start(2)
    training.wait_for(lambda: (training.run.path / "lock").exists(), agent)
    command = [sys.executable, "-m", "sonorant.cli.main", "watch", str(training.run.path), "--interval", "0.2"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as watching:
        said = watching.communicate(timeout=PATIENCE)[0]
    assert agent.wait(PATIENCE) == 0, training.said()
    assert watching.returncode == 0
    assert "acoustic 12/12 finished, loss" in said.splitlines()[-1], said
