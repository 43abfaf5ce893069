"""The platform of `make serve STACK=full` with a small project: real servers."""

import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from infra.platform.env_file import read_env
from infra.platform.programs import juicefs, postgres_program
from infra.platform.services import PORTS
from sonorant.errors import SonorantError
from tests.registry.planted import figures, more_errors, of_bundle, renamed, write_report
from tests.support.platform_project import MODEL, write_project
from tests.support.ports import free_port
from tests.support.processes import TOKEN, processes_of
from tests.support.waiting import wait_until

ON_THE_FULL_STACK = [
    pytest.mark.long,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(
        os.environ.get("SONORANT_PLATFORM_FLOWS") == "0",
        reason="not run (SONORANT_PLATFORM_FLOWS=0): it takes minutes on PostgreSQL and S3; `make test-long` runs it",
    ),
]
"""Marks of tests that take an hour together."""
REGISTRY = f"""
import hashlib, tempfile
from pathlib import Path
import mlflow
client = mlflow.MlflowClient()
found = {{"aliases": {{}}, "tags": {{}}, "versions": {{}}}}
for model in client.search_registered_models(f"name='{MODEL}'"):
    found["aliases"], found["tags"] = dict(model.aliases), dict(model.tags)
for version in client.search_model_versions("name='{MODEL}'"):
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        if with_files:
            mlflow.artifacts.download_artifacts(f"models:/{MODEL}/{{version.version}}", dst_path=folder)
        files = sorted(path for path in place.rglob("*") if path.is_file())
        hashes = [(str(path.relative_to(place)), hashlib.sha256(path.read_bytes()).hexdigest()) for path in files]
    found["versions"][version.version] = {{"tags": dict(version.tags), "run": version.run_id, "files": hashes}}
"""

CURVES = """
import mlflow
client = mlflow.MlflowClient()
runs = client.search_runs([each.experiment_id for each in client.search_experiments()], max_results=1000)
trainings = [run for run in runs if run.data.tags.get("stage") == "train_acoustic"]
executions = [run.data.tags.get("sonorant.executions", "").split() for run in trainings]
histories = [client.get_metric_history(run.info.run_id, "train/loss") for run in trainings]
found = [[of, [point.step for point in points]] for of, points in zip(executions, histories)]
"""


@dataclass
class Stack:
    """A project and its platform."""

    root: Path
    folder: Path
    """Folder of all the platform's data."""
    environment: dict[str, str]

    def module(self, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Run `python -m <words>` in the project, signed in."""
        command, environment = [sys.executable, "-m", *words], self.environment | self.client | more
        return subprocess.run(command, cwd=self.root, env=environment, capture_output=True, text=True, timeout=500)

    def begun(self, *words: str) -> subprocess.Popen[str]:
        """Start `python -m <words>` in the project, signed in."""
        command, pipe = [sys.executable, "-m", *words], subprocess.PIPE
        environment = self.environment | self.client
        return subprocess.Popen(command, cwd=self.root, env=environment, stdout=pipe, stderr=pipe, text=True)

    def run(self, *words: str, **more: str) -> str:
        """Like `module`; returns stdout, fails on a nonzero status."""
        done = self.module(*words, **more)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def python(self, code: str) -> Any:
        """The value of `found` after running the code in the project, signed in."""
        command = [sys.executable, "-c", f"import json\n{code}\nprint(json.dumps(found))"]
        environment = self.environment | self.client
        done = subprocess.run(command, cwd=self.root, env=environment, capture_output=True, text=True, timeout=500)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    def registry(self, files: bool = True) -> dict[str, Any]:
        """Versions of the voice with tags and files, its aliases and tags: all that must survive a crash."""
        return dict(self.python(f"with_files = {files}\n{REGISTRY}"))

    def place_voice(self, note: str = "first") -> None:
        """Put a voice identified by `note`, and its figures, where `register` and `promote` expect them."""
        for name in ("artifacts", "reports"):
            shutil.rmtree(self.root / name, ignore_errors=True)
        (self.root / "artifacts").mkdir()
        voice = renamed(self.root / "corpora" / "voice", self.root / "artifacts" / note)
        voice.rename(self.root / "artifacts" / "voice")
        write_report(self.root / "reports", more_errors(0.6))
        found = of_bundle(self.root / "artifacts" / "voice", figures(more_errors(0.6)))
        (self.root / "reports" / "metrics.json").write_text(json.dumps(found))

    def place_source(self, note: str) -> None:
        """As `place_voice`, but where a flow's stages expect it."""
        corpora = self.root / "corpora"
        voice = renamed(corpora / "voice", corpora / note)
        shutil.rmtree(corpora / "voice")
        voice.rename(corpora / "voice")
        found = of_bundle(corpora / "voice", figures(more_errors(0.6)))
        (corpora / "metrics.json").write_text(json.dumps(found))

    def start(self) -> subprocess.CompletedProcess[str]:
        return self.module("infra.platform.native", "start")

    @property
    def client(self) -> dict[str, str]:
        """Environment printed by `make serve STACK=full`."""
        file = self.folder / "client.env"
        return read_env(file) if file.exists() else {}

    def prefect(self, path: str, body: Any = None) -> Any:
        """Prefect's response to a GET, or to a POST of `body`; its command line takes seconds to start."""
        client = self.client
        return answer(f"{client['PREFECT_API_URL']}/{path}", client["PREFECT_API_AUTH_STRING"], body)

    def mlflow(self, path: str) -> Any:
        """MLflow's response to a GET; its client takes seconds to start."""
        client = self.client
        sign_in = f"{client['MLFLOW_TRACKING_USERNAME']}:{client['MLFLOW_TRACKING_PASSWORD']}"
        return answer(f"{client['MLFLOW_TRACKING_URI']}/api/2.0/mlflow/{path}", sign_in)

    def curves(self) -> list[tuple[list[str], list[int]]]:
        """Flow runs and logged steps of every training in MLflow."""
        return [(runs, steps) for runs, steps in self.python(CURVES)]

    def begin(self, **parameters: object) -> str:
        """Start a run of the deployment and return its id."""
        deployment = self.prefect("deployments/name/train-and-export/local")["id"]
        return str(self.prefect(f"deployments/{deployment}/create_flow_run", {"parameters": parameters})["id"])

    def trained(self, steps: int) -> list[str]:
        """Lines logged so far by the training of `steps` steps."""
        files = {path.resolve() for path in self.root.rglob(f"runs/train_acoustic/{steps}/metrics.jsonl")}
        return [line for path in files for line in path.read_text().splitlines()]  # copies of the project share `runs`

    def state(self, run: str) -> str:
        """Type of the run's state; empty while the server is unavailable."""
        with suppress(OSError):
            return str(self.prefect(f"flow_runs/{run}")["state"]["type"])
        return ""

    def ended(self, *runs: str) -> dict[str, str]:
        """Final states of the runs; polls slowly."""
        over = ("COMPLETED", "FAILED", "CRASHED", "CANCELLED")
        wait_until(lambda: all(self.state(run) in over for run in runs), patience=1500, pause=2)
        return {run: self.state(run) for run in runs}

    def logs(self, run: str) -> str:
        """The run's log lines."""
        found = self.prefect("logs/filter", {"logs": {"flow_run_id": {"any_": [run]}}, "sort": "TIMESTAMP_ASC"})
        return "\n".join(each["message"] for each in found)


def answer(url: str, sign_in: str, body: Any = None) -> Any:
    headers = {"Authorization": f"Basic {base64.b64encode(sign_in.encode()).decode()}"}
    request = urllib.request.Request(url, headers=headers | {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, None if body is None else json.dumps(body).encode(), timeout=60) as reply:
        return json.load(reply)


def why_not() -> str | None:
    """Reason for no platform, else None."""
    try:
        import boto3  # noqa: F401
        import flask_wtf  # noqa: F401

        postgres_program("initdb")
        juicefs()
    except (ImportError, SonorantError) as error:
        return f"not run: {error}"
    return None


@contextmanager
def platform(voice: Path) -> Iterator[Stack]:
    """A running platform, completely removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="sonorant-platform-") as name:
        folder = Path(name)
        folder.chmod(0o711)  # PostgreSQL's user must be able to enter
        root = folder / "project"
        write_project(root, voice)
        outside = ("PREFECT", "MLFLOW", "AWS_", "PG", "SONORANT_")
        environment = {name: value for name, value in os.environ.items() if not name.startswith(outside)}
        environment |= {f"SONORANT_{name.upper()}_PORT": str(free_port()) for name in PORTS}
        environment |= {"SONORANT_PLATFORM": str(folder / "platform")}
        environment |= {TOKEN: str(root), "PYTHONPATH": str(root), "PREFECT_HOME": str(folder / "client")}
        environment |= {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
        stack = Stack(root, folder / "platform", environment)
        try:
            done = stack.start()
            assert done.returncode == 0, done.stderr
            yield stack
        finally:
            stack.module("infra.platform.native", "stop")
            for process in processes_of(root):
                process.kill()
