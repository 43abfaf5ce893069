import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.flows.conftest import dvc
from tests.support.imports import ROOT
from tests.support.pipeline import git
from tests.support.ports import free_port
from tests.support.processes import TOKEN, processes_of
from tests.support.waiting import wait_until

pytestmark = pytest.mark.long

GRAPH = """\
stages:
  prepare:
    cmd: echo done > prepared.txt
    outs: [prepared.txt]
  train_predictor:
    cmd: touch runs/started && sleep 600
    params: [train_acoustic.steps]
    outs: [model.txt]
"""


@dataclass
class Served:
    """A project with its servers."""

    root: Path
    environment: dict[str, str]
    printed: str

    def module(self, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
        command, environment = [sys.executable, "-m", *words], self.environment | more
        return subprocess.run(command, cwd=self.root, env=environment, capture_output=True, text=True, timeout=400)

    def servers(self, action: str, **more: str) -> subprocess.CompletedProcess[str]:
        return self.module("infra.local_servers", action, **more)

    def prefect(self, *arguments: str) -> str:
        done = self.module("prefect", *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def run_deployment(self, **parameters: object) -> str:
        given = [f"--param={name}={json.dumps(value)}" for name, value in parameters.items()]
        said = self.prefect("deployment", "run", "train-and-export/local", *given)
        return next(line for line in said.splitlines() if "UUID" in line).split()[-1]

    def state(self, run: str) -> str:
        return str(json.loads(self.prefect("flow-run", "inspect", run, "--output", "json"))["state"]["type"])


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    root = tmp_path_factory.mktemp("served") / "project"
    for package in ("flows", "tasks", "sonorant", "infra"):
        shutil.copytree(ROOT / package, root / package, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("prefect.yaml", "params.yaml"):
        shutil.copy(ROOT / file, root)
    (root / "dvc.yaml").write_text(GRAPH)
    (root / ".gitignore").write_text("/runs/\n__pycache__/\n")
    git(root, "init", "-q")
    dvc(root, "init", "-q")
    ports = {"SONORANT_PREFECT_PORT": str(free_port()), "SONORANT_MLFLOW_PORT": str(free_port())}
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT", "MLFLOW"))}
    environment |= ports | {TOKEN: str(root), "PYTHONPATH": str(root)}
    project = Served(root, environment, "")
    try:
        done = project.servers("start")
        assert done.returncode == 0, done.stderr
        project.printed = done.stdout
        exports = dict(line.removeprefix("export ").split("=", 1) for line in done.stdout.splitlines())
        environment |= exports | {"PREFECT_HOME": str(root / "client")}
        yield project
    finally:
        project.servers("stop")
        for process in processes_of(root):
            process.kill()


def test_prints_what_to_paste_and_a_second_start_prints_it_again(served: Served) -> None:
    told = [line.split("=")[0] for line in served.printed.splitlines()]
    assert told == ["export PREFECT_API_URL", "export MLFLOW_TRACKING_URI"]
    again = served.servers("start")
    assert (again.returncode, again.stdout) == (0, served.printed)


def test_deployment_runs_as_any_other(served: Served) -> None:
    run = served.run_deployment(stages=["prepare"])
    wait_until(lambda: served.state(run) in ("COMPLETED", "FAILED", "CRASHED"))
    assert served.state(run) == "COMPLETED"
    assert (served.root / "prepared.txt").read_text() == "done\n"


def test_cancelled_run_leaves_no_process(served: Served) -> None:
    run = served.run_deployment(overrides={"train_acoustic.steps": 7}, register=False)
    wait_until((served.root / "runs" / "started").exists)
    assert processes_of(served.root, having="SONORANT_COMMAND") != []
    served.prefect("flow-run", "cancel", run)
    wait_until(lambda: served.state(run) == "CANCELLED")
    wait_until(lambda: processes_of(served.root, having="SONORANT_COMMAND") == [])


def test_port_in_use_is_one_line_and_starts_nothing(served: Served, tmp_path: Path) -> None:
    other = Served(tmp_path, served.environment, "")
    done = other.servers("start", **{TOKEN: str(tmp_path)})
    port = served.environment["SONORANT_PREFECT_PORT"]
    assert done.returncode == 1
    assert done.stderr == f"error: port {port} is in use; choose another: SONORANT_PREFECT_PORT=<port> make serve\n"
    assert processes_of(tmp_path) == []


def test_stop_ends_all_it_started_and_spares_a_stranger_with_an_old_pid(served: Served) -> None:
    state = served.root / "runs" / "serve"
    worker = json.loads((state / "worker.json").read_text())
    stranger = subprocess.Popen(["sleep", "600"])
    try:
        (state / "worker.json").write_text(json.dumps(worker | {"pid": stranger.pid}))
        assert served.servers("stop").returncode == 0
        assert stranger.poll() is None
        left = {p.pid for p in processes_of(served.root)}
        assert worker["pid"] in left, "the one whose pid was lost"
        (state / "worker.json").write_text(json.dumps(worker))
        assert served.servers("stop").returncode == 0
        assert processes_of(served.root) == []
        assert served.servers("stop").returncode == 0, "stopping twice is no error"
    finally:
        stranger.kill()
