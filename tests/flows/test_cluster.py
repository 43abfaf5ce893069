from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sonorant.processes import SCHEDULER
from tests.flows.test_train_and_export import prefect_log
from tests.support.cluster import cluster
from tests.support.ports import free_port
from tests.support.waiting import wait_until

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
# Parent processes of the workers: the stage itself, or a Dask nanny.
STAGE = """\
import os, pathlib
from sonorant.processes import spread
from tests.support.spread_work import parent
if __name__ == "__main__":
    parents = spread(parent, range(20), label="parents", unit="item")
    here = "the stage" if set(parents) == {os.getpid()} else "workers"
    pathlib.Path("runs/where").write_text(here)
    pathlib.Path("prepared.txt").write_text("20")
"""


@pytest.fixture
def project(make_project: Make, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a stage that spreads work and records where it ran."""
    monkeypatch.delenv(SCHEDULER, raising=False)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    root = make_project("project", STAGES)
    (root / "stage.py").write_text(STAGE)
    return root


def done_by(root: Path) -> str:
    return (root / "runs/where").read_text()


def test_stages_use_a_cluster_and_the_log_links_its_dashboard(project: Path, run_flow: Run, tmp_path: Path) -> None:
    assert run_flow(project, register=False).is_completed() and done_by(project) == "the stage"
    (project / "stage.py").write_text(STAGE + "# again\n")
    with cluster(tmp_path, workers=1) as made:
        state = run_flow(project, register=False, scheduler=made.address)
    assert state.is_completed(), state.message
    assert done_by(project) == "workers"
    wait_until(lambda: any("distribute their work over tcp://" in line for line in prefect_log(state)))


@pytest.mark.parametrize(
    ("scheduler", "says"),
    [
        ("10.0.0.1", "scheduler: '10.0.0.1' is not a scheduler address"),
        ("tcp://127.0.0.1:{free}", "cannot reach a scheduler at tcp://127.0.0.1:"),
    ],
)
def test_a_bad_address_is_one_line_before_anything_runs(
    scheduler: str, says: str, project: Path, run_flow: Run
) -> None:
    state = run_flow(project, register=False, scheduler=scheduler.format(free=free_port()))
    assert state.is_failed() and says in state.message and "\n" not in state.message
    assert not (project / "runs/where").exists()
