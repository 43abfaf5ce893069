import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.imports import ROOT
from tests.support.pipeline import git
from tests.support.postgres import server, why_not
from tests.support.processes import TOKEN, start

pytest.importorskip("prefect")

STAGES = """\
stages:
  prepare:
    cmd: >-
      python -c "import shutil; shutil.copy('corpora/words.txt', 'prepared.txt');
      open('runs/log', 'a').write('prepare\\\\n')"
    deps: [corpora/words.txt]
    params: [corpus.sentences]
    outs: [prepared.txt]
  train_predictor:
    cmd: >-
      python -c "import yaml; n = yaml.safe_load(open('params.yaml'))['train_acoustic']['steps'];
      w = open('prepared.txt').read(); open('model.txt', 'w').write(w * n); print('trained', n);
      open('runs/log', 'a').write('train_predictor\\\\n')"
    deps: [prepared.txt]
    params: [train_acoustic.steps]
    outs: [model.txt]
  evaluate:
    cmd: >-
      python -c "import os; os.makedirs('reports/evaluation', exist_ok=True);
      open('reports/evaluation/size', 'w').write(str(len(open('model.txt').read())));
      open('runs/log', 'a').write('evaluate\\\\n')"
    deps: [model.txt, prepared.txt]
    outs: [reports/evaluation]
"""
PARAMS = """\
corpus:
  sentences: 3   # how many
train_acoustic:
  steps: 2       # of the optimizer
  learning_rate: 1.0e-3
  precision: bf16
"""


@pytest.fixture(scope="session")
def prefect_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a real server with a database for the session."""
    os.environ["PREFECT_HOME"] = str(tmp_path_factory.mktemp("prefect"))
    from prefect.settings import PREFECT_API_URL
    from prefect.testing.utilities import prefect_test_harness

    with prefect_test_harness(server_startup_timeout=120):
        yield PREFECT_API_URL.value()


@pytest.fixture
def make_project(tmp_path: Path) -> Callable[[str], Path]:
    """make_project(name) -> a new folder with git, DVC and three stages, nothing run."""

    def make(name: str, stages: str = STAGES) -> Path:
        root = tmp_path / name
        (root / "corpora").mkdir(parents=True)
        (root / "runs").mkdir()
        (root / "corpora" / "words.txt").write_text("one two\n")
        (root / "dvc.yaml").write_text(stages)
        (root / "params.yaml").write_text(PARAMS)
        (root / ".gitignore").write_text("/runs/\n")
        (root / ".dvcignore").write_text("runs\n")
        git(root, "init", "-q")
        dvc(root, "init", "-q")
        dvc(root, "config", "core.analytics", "false")
        commit(root)
        return root

    return make


@pytest.fixture
def run_flow(prefect_server: str, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """run_flow(project, **parameters) -> final state of train_and_export."""

    def run(root: Path, **parameters: Any) -> Any:
        from flows.train_and_export import train_and_export

        monkeypatch.chdir(root)
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{root}/runs/mlflow.db")
        return train_and_export(**parameters, return_state=True)

    return run


def start_flow(root: Path, code: str, server: str) -> subprocess.Popen[bytes]:
    """Run Python code that runs a flow, in a separate process."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PREFECT_API_URL": server, TOKEN: str(root)}
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return start([sys.executable, "-c", code], cwd=root, env=environment, **silent)


def commit(root: Path) -> None:
    git(root, "add", "-A")
    git(root, "-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "all")


def dvc(root: Path, *arguments: str) -> str:
    """Run DVC with this interpreter as `python`."""
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    command = [sys.executable, "-m", "dvc", *arguments]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """Address of a real Postgres server, or skip."""
    if why := why_not():
        pytest.skip(why)
    with tempfile.TemporaryDirectory(prefix="pg") as folder, server(Path(folder)) as address:
        yield address
