"""`sonorant watch`: a training as its run directory tells of it, on a terminal and in a log, with an exit status."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from sonorant.errors import SonorantError
from sonorant.files import write_json
from sonorant.training.run_directory import MetricsLog, RunDirectory
from sonorant.training.watch import terminal
from sonorant.training.watch.terminal import clock, drawn, line, watch
from sonorant.training.watch.view import QUIET, Watched, find_run
from tests.support.command import error_line, run_command
from tests.support.imports import ROOT
from tests.support.processes import start
from tests.support.trainings import Training
from tests.support.waiting import PATIENCE

FINDING = {"rank": 1, "host": "node7", "kind": "slow", "sentence": "on node7 keeps the others waiting", "since": 30}


def a_run(folder: Path, state: str = "running", rows: int = 5, **status: Any) -> RunDirectory:
    """A run directory as a training of two ranks leaves it: a row every 10 steps and 5 seconds, a checkpoint at 20."""
    run = RunDirectory(folder)
    folder.mkdir(parents=True, exist_ok=True)
    write_json(run.job, {"recipe": "acoustic", "train": {"steps": 200}})
    start = time.time() - 5 * rows
    with run.metrics.open("w") as file:
        for number in range(1, rows + 1):
            row = {"train/loss": 1 / number, "speed/audio_seconds_per_second": 50.0}
            for rank in (0, 1):
                times = {"forward": 0.3, "backward": 0.4, "data": 0.1 * rank, "communication": 0.2 - 0.1 * rank}
                row |= {f"time/rank{rank}/{name}": share for name, share in times.items()}
                row |= {f"train/loss_by_rank/rank{rank}": 1 / number + rank / 10}
                row |= {f"speed/rank{rank}/audio_seconds_per_working_second": 40.0 - 10 * rank}
            file.write(json.dumps({"step": 10 * number, "time": start + 5 * number, "metrics": row}) + "\n")
        file.write(json.dumps({"step": 20, "time": start, "metrics": {"validation/loss": 0.75}}) + "\n")
    run.write_status(state, status.get("step", 20), status.get("message", ""))
    run.write_health(0, [])
    return run


def test_a_view_holds_what_the_run_directory_says(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    run.lock()
    run.write_status("running", 20)
    view = Watched(tmp_path).look()
    assert (view.model, view.state, view.step, view.steps, view.saved) == ("acoustic", "running", 50, 200, 20)
    assert (view.loss, view.validation, view.speed) == (0.2, 0.75, 50.0)
    assert view.pace == pytest.approx(0.5) and view.seconds_left == pytest.approx(75)
    first, second = view.ranks
    assert (first.loss, second.loss, first.speed, second.speed) == (0.2, pytest.approx(0.3), 40.0, 30.0)
    assert first.shares == pytest.approx({"computing": 0.7, "data": 0.0, "waiting": 0.2, "rest": 0.1})
    assert second.shares == pytest.approx({"computing": 0.7, "data": 0.1, "waiting": 0.1, "rest": 0.1})


def test_only_new_rows_are_read_and_a_torn_one_waits_for_its_rest(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    run.lock()
    watched = Watched(tmp_path)
    assert watched.look().step == 50
    row = json.dumps({"step": 60, "time": time.time(), "metrics": {"train/loss": 0.1}})
    with run.metrics.open("a") as file:
        file.write(row[:20])
        file.flush()
        assert watched.look().step == 50
        file.write(row[20:] + "\nnot a row\n")
    assert (watched.look().step, watched.look().loss) == (60, 0.1)
    run.metrics.write_text("")
    MetricsLog(run.metrics).write(5, {"train/loss": 3.0})
    assert watched.look().loss == 3.0, "a file that was cut is read anew"


@pytest.mark.parametrize(
    ("state", "message", "status"), [("finished", "", 0), ("stopped", "", 75), ("failed", "the disk is full", 1)]
)
def test_the_end_of_a_training_is_the_exit_status(
    state: str, message: str, status: int, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    a_run(tmp_path, state, message=message)
    assert watch(tmp_path) == watch(tmp_path, once=True) == status
    said = capsys.readouterr()
    assert f"acoustic {50 if state == 'failed' else 20}/200 {state}, loss 0.2000" in said.out
    assert message in said.err


def test_a_training_whose_process_is_gone_is_killed_and_one_that_is_resumed_is_starting(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    for file in tmp_path.iterdir():
        os.utime(file, (time.time() - QUIET - 1,) * 2)
    assert Watched(tmp_path).look().state == "killed" and watch(tmp_path) == 1
    write_json(tmp_path / "status.json", {"state": "stopped", "step": 20, "message": "", "time": time.time() - 100})
    assert Watched(tmp_path).look().state == "stopped"
    run.lock()
    assert Watched(tmp_path).look().state == "starting", "the end is that of the training before"
    run.write_status("running", 20)
    assert Watched(tmp_path).look().state == "running" and watch(tmp_path, once=True) == 0


def test_the_run_at_work_is_found_below_a_folder_and_else_the_newest(tmp_path: Path) -> None:
    old, new = a_run(tmp_path / "a" / "1"), a_run(tmp_path / "b" / "2")
    for file in old.path.iterdir():
        os.utime(file, (1, 1))
    assert find_run(tmp_path) == new.path
    old.lock()
    assert find_run(tmp_path) == find_run(old.path) == old.path


@pytest.mark.parametrize("empty", [True, False])
def test_a_folder_without_a_training_is_refused_in_one_line(empty: bool, tmp_path: Path) -> None:
    folder = tmp_path if empty else tmp_path / "nowhere"
    says = "no training has begun here; name a run directory" if empty else "no such folder"
    with pytest.raises(SonorantError, match=says):
        watch(folder)
    assert error_line(run_command("sonorant.cli.main", "watch", folder)).startswith(f"{folder}: {says}")


def test_a_damaged_status_and_an_interval_that_is_none_are_refused(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    (run.path / "status.json").write_text("{")
    assert "status.json" in error_line(run_command("sonorant.cli.main", "watch", tmp_path))
    done = run_command("sonorant.cli.main", "watch", tmp_path, "--interval", "0")
    assert done.returncode == 2 and "0 is not a number of seconds above 0" in done.stderr


def test_the_screen_shows_ranks_findings_and_the_cause_of_the_end(tmp_path: Path) -> None:
    run = a_run(tmp_path, "failed", message="rank 1 [has] not answered")
    run.write_health(30, [FINDING])
    view, screen = Watched(tmp_path).look(), io.StringIO()
    Console(file=screen, width=120).print(drawn(view))
    shown = screen.getvalue()
    assert "rank 1 slow: on node7 keeps the others waiting (since step 30)" in shown
    assert "rank 1 [has] not answered" in shown, "brackets are no markup"
    assert "50/200" in shown and "40" in shown and "70%" in shown
    assert line(view).endswith("checkpoint at step 20, rank 1 slow")


def test_a_finding_is_told_in_full_once(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    run, show = a_run(tmp_path), terminal._in_lines()
    for findings in ([FINDING], [FINDING | {"sentence": "newer figures"}], [], [FINDING]):
        run.write_health(30, findings)
        show(Watched(tmp_path).look())
    assert capsys.readouterr().out.count("keeps the others waiting") == 2


def test_time_is_written_as_a_clock() -> None:
    assert [clock(seconds) for seconds in (0, 59.6, 3599, 3661)] == ["0:00", "1:00", "59:59", "1:01:01"]


def test_a_real_training_is_watched_from_outside_to_its_end(features: Path, tmp_path: Path) -> None:
    training = Training("acoustic", features, tmp_path, steps=12, checkpoint_every=12, validate_every=12)
    agent = training.start(2)
    training.wait_for(lambda: (training.run.path / "lock").exists(), agent)
    command = [sys.executable, "-m", "sonorant.cli.main", "watch", str(training.run.path), "--interval", "0.2"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as watching:
        said = watching.communicate(timeout=PATIENCE)[0]
    assert agent.wait(PATIENCE) == 0, training.said()
    assert watching.returncode == 0
    states = [line for line in said.splitlines() if line.startswith("acoustic ")]  # a finding may stand below one
    assert "acoustic 12/12 finished, loss" in states[-1], said


def test_watching_needs_no_torch_and_is_ended_by_ctrl_c(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    run.lock()
    run.write_status("running", 20)
    code = "import sys; sys.modules['torch'] = None; from sonorant.cli.main import main; main(sys.argv[1:])"
    command = [sys.executable, "-c", code, "watch", str(tmp_path), "--interval", "0.1"]
    with start(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        assert watching.stdout.readline().startswith("acoustic 50/200 running")
        watching.send_signal(signal.SIGINT)
        assert watching.wait(PATIENCE) == 130
