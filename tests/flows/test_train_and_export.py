import logging
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flows.train_and_export import run_stage
from tests.flows.conftest import dvc, start_flow
from tests.support.pipeline import git
from tests.support.processes import processes_of
from tests.support.waiting import PATIENCE, wait_until

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]  # whole pipelines: minutes each, more on a busy machine
Make, Run = Callable[..., Path], Callable[..., Any]


def prefect_log(state: Any) -> list[str]:
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import LogFilter, LogFilterFlowRunId

    with get_client(sync_client=True) as client:
        run = LogFilter(flow_run_id=LogFilterFlowRunId(any_=[state.state_details.flow_run_id]))
        return [log.message for log in client.read_logs(run)]


def done_stages(root: Path) -> list[str]:
    log = root / "runs" / "log"
    return log.read_text().split() if log.exists() else []


def test_lock_file_is_that_of_dvc_repro(make_project: Make, run_flow: Run) -> None:
    by_flow, by_dvc = make_project("flow"), make_project("dvc")
    state = run_flow(by_flow, register=False)
    assert state.is_completed()
    wait_until(lambda: "trained 2" in prefect_log(state))  # Prefect sends a stage's output with a delay
    dvc(by_dvc, "repro")
    assert (by_flow / "dvc.lock").read_bytes() == (by_dvc / "dvc.lock").read_bytes()
    assert done_stages(by_flow) == ["prepare", "train_predictor", "evaluate"]
    assert run_flow(by_flow, register=False).is_completed()
    assert "up to date" in dvc(by_flow, "repro")
    assert done_stages(by_flow) == ["prepare", "train_predictor", "evaluate"], "nothing ran again"


def test_overrides_leave_the_working_tree_alone(make_project: Make, run_flow: Run) -> None:
    root = make_project("project")
    assert run_flow(root, register=False).is_completed()
    git(root, "add", "-A")
    before = git(root, "status", "--porcelain"), (root / "dvc.lock").read_bytes()
    state = run_flow(root, overrides={"train_acoustic.steps": 5}, register=False)
    where = Path(state.result()["where"])
    assert (git(root, "status", "--porcelain"), (root / "dvc.lock").read_bytes()) == before
    assert (root / "model.txt").read_text() == "one two\n" * 2
    assert (where / "model.txt").read_text() == "one two\n" * 5
    assert "steps: 5       # of the optimizer" in (where / "params.yaml").read_text()
    assert done_stages(root)[3:] == ["train_predictor", "evaluate"], (
        "what the override does not touch came from the shared cache"
    )
    assert "up to date" in dvc(root, "repro")


def test_bad_parameters_are_one_line_before_anything_runs(
    make_project: Make, run_flow: Run, caplog: pytest.LogCaptureFixture
) -> None:
    root = make_project("project")
    for parameters, says in (
        ({"overrides": {"train_acoustic.stepz": 5}}, "'train_acoustic.stepz'; did you mean 'train_acoustic.steps'"),
        ({"stages": ["trane"]}, "unknown stage 'trane'; dvc.yaml has: prepare, train_predictor, evaluate"),
    ):
        state = run_flow(root, **parameters)
        assert state.is_failed() and says in state.message and "\n" not in state.message
    assert "Traceback" not in caplog.text
    assert done_stages(root) == [] and not (root / "runs" / "workspaces").exists()


def test_failing_stage_fails_the_run_and_names_its_last_line(make_project: Make, run_flow: Run) -> None:
    stages = "stages:\n  prepare:\n    cmd: sh -c 'echo error; exit 3'\n    outs: [prepared.txt]\n"
    state = run_flow(make_project("project", stages))
    assert state.is_failed() and "prepare" in state.message


SLOW = """\
stages:
  prepare:
    cmd: python stage.py
    deps: [stage.py]
    outs: [prepared.txt]
"""
# The stage counts its steps in its run directory, like a trainer; its child has a separate session, like torchrun's
# workers.
STAGE = """\
import pathlib, subprocess, sys, time
deaf = 'import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)'
child = subprocess.Popen([sys.executable, '-c', deaf], start_new_session=True)
log = pathlib.Path('runs/steps')
done = len(log.read_text()) if log.exists() else 0
print('resumed at', done, flush=True)
for step in range(done, 3):
    with log.open('a') as file:
        file.write('x')
    if step == 1 and not pathlib.Path('runs/go').exists():
        pathlib.Path('runs/waiting').touch()
        time.sleep(600)
child.kill()
pathlib.Path('prepared.txt').write_text(str(3 - done))
"""


def test_cancelling_leaves_no_process_and_the_next_run_resumes(
    prefect_server: str, make_project: Make, run_flow: Run
) -> None:
    """Prefect's worker sends SIGTERM for a cancelled run."""
    root = make_project("project", SLOW)
    (root / "stage.py").write_text(STAGE)
    code = "from flows import command, train_and_export as f; command.GRACE = 3; f.train_and_export(register=False)"
    flow = start_flow(root, code, prefect_server)
    wait_until(lambda: (root / "runs" / "waiting").exists() or flow.poll() is not None)
    assert len(processes_of(root)) >= 4, "flow, dvc, stage and its child"
    flow.send_signal(signal.SIGTERM)
    flow.wait(PATIENCE)
    assert flow.returncode != 0
    assert processes_of(root) == []
    (root / "runs" / "go").touch()
    assert run_flow(root, register=False).is_completed()
    assert (root / "prepared.txt").read_text() == "1", "two of three steps were not done twice"


def test_two_runs_in_one_folder_take_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """DVC would reject the second immediately and advise removing the first one's lock."""
    monkeypatch.setattr("flows.train_and_export.get_run_logger", lambda: logging.getLogger("run"))
    begun, ended = threading.Event(), threading.Event()
    real_commands: list[str] = []

    def stage(what: str, *given: object) -> None:
        real_commands.append(what)
        begun.set()
        if len(real_commands) == 1:
            assert ended.wait(60)

    monkeypatch.setattr("flows.train_and_export.run_logged", stage)
    monkeypatch.setattr("flows.train_and_export.stage_command", lambda *given: ([], tmp_path, {}))
    first, second = (
        threading.Thread(target=run_stage.fn, args=(name, str(tmp_path), "run"), daemon=True) for name in ("a", "b")
    )
    first.start()
    assert begun.wait(60)
    second.start()
    second.join(0.5)
    assert real_commands == ["stage 'a'"]
    ended.set()
    second.join(60)
    assert real_commands == ["stage 'a'", "stage 'b'"]
