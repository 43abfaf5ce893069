"""A flow's workers: stages spread their work over them, and nothing of them is left afterwards."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sonorant.processes import SCHEDULER
from tests.flows.conftest import start_flow
from tests.flows.test_train_and_export import prefect_log
from tests.support.cluster import cluster
from tests.support.ports import free_port
from tests.support.processes import processes_of
from tests.support.waiting import PATIENCE, wait_until

pytest.importorskip("distributed", reason="distributed is not installed (the extra cluster)")
pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]  # minutes on a busy machine
Make, Run = Callable[..., Path], Callable[..., Any]
STAGES = """\
stages:
  prepare:
    cmd: python stage.py
    deps: [stage.py]
    outs: [prepared.txt]
"""
# The parents of the processes that did the work: the stage itself, or a nanny of Dask's.
STAGE = """\
import os, pathlib, time
from sonorant.processes import spread
from tests.support.spread_work import parent, variable
if __name__ == "__main__":
    parents = spread(parent, range(20), label="parents", unit="item")
    here = "the stage" if set(parents) == {os.getpid()} else "workers"
    pathlib.Path("runs/where").write_text(here)
    [trim] = spread(variable, ["MALLOC_TRIM_THRESHOLD_"], label="variables", unit="name")
    assert trim == os.environ.get("MALLOC_TRIM_THRESHOLD_"), "Dask's workers give memory back at once"
    pathlib.Path("prepared.txt").write_text("20")
    while pathlib.Path("runs/hold").exists():
        time.sleep(0.1)
"""


@pytest.fixture
def project(make_project: Make, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a stage that spreads work and notes where it was done."""
    monkeypatch.delenv(SCHEDULER, raising=False)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    root = make_project("project", STAGES)
    (root / "stage.py").write_text(STAGE)
    return root


def done_by(root: Path) -> str:
    return (root / "runs/where").read_text()


def test_stages_use_the_workers_of_the_run_and_its_log_links_the_dashboard(project: Path, run_flow: Run) -> None:
    assert run_flow(project, register=False).is_completed() and done_by(project) == "the stage"
    (project / "stage.py").write_text(STAGE + "# again\n")
    state = run_flow(project, register=False, workers=2)
    assert state.is_completed(), state.message
    assert done_by(project) == "workers"
    wait_until(lambda: any("dashboard: http://127.0.0.1:" in line for line in prefect_log(state)))


def test_stages_use_a_cluster_that_is_there(project: Path, run_flow: Run, tmp_path: Path) -> None:
    with cluster(tmp_path, workers=1) as made:
        state = run_flow(project, register=False, workers=made.address)
    assert state.is_completed(), state.message
    assert done_by(project) == "workers"


@pytest.mark.parametrize(
    ("workers", "says"),
    [
        (-1, "workers is -1; give a number of processes, or the address of a scheduler"),
        ("10.0.0.1", "workers: '10.0.0.1' is no address of a scheduler"),
        ("tcp://127.0.0.1:{free}", "no scheduler answers at tcp://127.0.0.1:"),
    ],
)
def test_bad_workers_are_one_line_before_anything_runs(
    workers: int | str, says: str, project: Path, run_flow: Run
) -> None:
    if isinstance(workers, str):
        workers = workers.format(free=free_port())
    state = run_flow(project, register=False, workers=workers)
    assert state.is_failed() and says in state.message and "\n" not in state.message
    assert not (project / "runs/where").exists()


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_no_worker_outlives_the_flow(project: Path, prefect_server: str, how: signal.Signals) -> None:
    (project / "runs/hold").touch()
    code = "from flows.train_and_export import train_and_export\ntrain_and_export(register=False, workers=2)"
    flow = start_flow(project, code, prefect_server)
    wait_until(lambda: (project / "prepared.txt").exists() or flow.poll() is not None)
    assert len(processes_of(project, running="flows.workers")) == 1
    os.kill(flow.pid, how)
    flow.wait(PATIENCE)
    (project / "runs/hold").unlink()
    wait_until(lambda: processes_of(project) == [])
