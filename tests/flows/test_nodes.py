"""A flow on several machines: the second is a folder with its own worker, which shares only a server."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from prefect import flow
from prefect.client.orchestration import get_client
from prefect.deployments import run_deployment

from flows.nodes import Part, other_nodes
from flows.train_node import train_node
from tests.flows.conftest import commit, dvc, start_flow
from tests.support.imports import ROOT
from tests.support.pipeline import git
from tests.support.processes import TOKEN, processes_of, start
from tests.support.waiting import PATIENCE, wait_until

pytestmark = pytest.mark.long
Run = Callable[..., Any]

NODES = """\
stages:
  prepare:
    cmd: cp corpora/words.txt prepared.txt
    deps: [corpora/words.txt]
    outs: [prepared.txt]
  train_predictor:
    cmd: python stage.py
    deps: [prepared.txt]
    outs: [model.txt]
"""
# Two "machines" meet in a folder named by the rendezvous id; the second runs the code in `second`.
NODE = """\
import os, pathlib, sys, time
me, count = os.environ['PET_NODE_RANK'], int(os.environ['PET_NNODES'])
meeting = pathlib.Path(os.environ['MEETINGS']) / os.environ['PET_RDZV_ID']
meeting.mkdir(exist_ok=True)
fetched = meeting.parent / f'{meeting.name}-{me}'
fetched.write_text(pathlib.Path('prepared.txt').read_text())
fetched.rename(meeting / me)  # whole: the other reads it as soon as it is there
what = (meeting.parent / 'second').read_text()
if me == '1' and what == 'fails':
    sys.exit('error: no disk')
while len(list(meeting.iterdir())) < count or what in ('fails', 'never ends'):
    time.sleep(0.1)
if me == '0':
    pathlib.Path('model.txt').write_text((meeting / '1').read_text())
"""


@pytest.fixture
def two_machines(
    prefect_server: str, make_project: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Path, Path]]:
    """A project whose second machine has a copy and a worker of the node pool, and the meeting folder."""
    root, meetings = make_project("project", NODES), tmp_path / "meetings"
    meetings.mkdir()
    (root / "stage.py").write_text(NODE)
    shutil.copy(ROOT / "prefect.yaml", root)
    for package in ("flows", "tasks", "sonorant"):  # a worker imports the flow from its own folder
        (root / package).symlink_to(ROOT / package)
    dvc(root, "remote", "add", "-d", "store", str(tmp_path / "remote"))
    commit(root)
    second = tmp_path / "second"
    git(tmp_path, "clone", "-q", str(root), str(second))
    monkeypatch.setenv("MEETINGS", str(meetings))
    monkeypatch.setenv("SONORANT_NODE_ADDRESS", "127.0.0.1")
    environment = os.environ | {"PREFECT_API_URL": prefect_server, "PWD": str(second), TOKEN: str(second)}
    environment |= {"PREFECT_WORKER_QUERY_SECONDS": "1", "PYTHONPATH": str(ROOT)}
    environment["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    prefect = [sys.executable, "-m", "prefect"]
    for pool in ("sonorant", "sonorant-nodes"):
        create = [*prefect, "work-pool", "create", pool, "--type", "process", "--overwrite"]
        subprocess.run(create, env=environment, check=True)
    subprocess.run([*prefect, "--no-prompt", "deploy", "--all"], cwd=root, env=environment, check=True)
    command = [*prefect, "worker", "start", "--pool", "sonorant-nodes", "--limit", "1"]
    worker = start(command, cwd=second, env=environment)
    try:
        yield root, meetings
    finally:
        worker.send_signal(signal.SIGTERM)
        worker.wait(PATIENCE)


def test_nodes_are_fetched_for_watched_and_cancelled(
    prefect_server: str, two_machines: tuple[Path, Path], run_flow: Run
) -> None:
    root, meetings = two_machines
    second = root.parent / "second"
    (meetings / "second").write_text("fails")
    state = run_flow(root, register=False, nodes=2)
    assert state.is_failed() and "1 ended in state Failed" in state.message and "no disk" in state.message, (
        state.message
    )
    assert processes_of(second, running="stage.py") == []

    (meetings / "second").write_text("succeeds")
    state = run_flow(root, register=False, nodes=2)
    assert state.is_completed(), state.message
    assert (root / "model.txt").read_text() == "one two\n", "what the second machine fetched"
    assert not (second / "prepared.txt").exists(), "it worked in a copy"

    (root / "model.txt").unlink()
    (root / "dvc.lock").unlink()
    shutil.rmtree(root / ".dvc" / "cache" / "runs")
    (meetings / "second").write_text("never ends")
    before = len(list(meetings.iterdir()))
    code = "from flows.train_and_export import train_and_export\ntrain_and_export(register=False, nodes=2)"
    flow = start_flow(root, code, prefect_server)
    wait_until(lambda: any(meetings.glob("*/1")) and len(list(meetings.iterdir())) > before)
    wait_until(lambda: processes_of(second, running="stage.py") != [])
    flow.send_signal(signal.SIGTERM)
    flow.wait(PATIENCE)
    wait_until(lambda: processes_of(second, running="stage.py") == [])


def test_a_node_that_no_worker_takes_ends_the_flow_in_one_line(two_machines: tuple[Path, Path], run_flow: Run) -> None:
    root, meetings = two_machines
    (meetings / "second").write_text("never ends")
    state = run_flow(root, register=False, nodes=3, join_timeout=15)
    assert state.is_failed() and "no worker started node" in state.message and "--pool sonorant-nodes" in state.message


def test_nodes_already_started_are_cancelled_when_another_cannot_be(
    prefect_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployment: Any = train_node.to_deployment("node")
    deployment.apply()
    started: list[Any] = []

    def refuse_the_second(*arguments: Any, **settings: Any) -> Any:
        if started:
            raise ConnectionError("the server is busy")
        started.append(run_deployment(*arguments, **settings))
        return started[0]

    monkeypatch.setattr("flows.nodes.run_deployment", refuse_the_second)
    part = Part(stage="train", rank=0, count=3, endpoint="127.0.0.1:1", meeting="m", join_seconds=60, commit="c")

    @flow
    def first_node() -> None:
        with other_nodes(part):
            raise AssertionError("the nodes are not complete")

    with pytest.raises(ConnectionError, match="the server is busy"):
        first_node()
    with get_client(sync_client=True) as client:
        state = client.read_flow_run(started[0].id).state
    assert state is not None and state.is_cancelled()
