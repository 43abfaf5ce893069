"""MLflow server outages during training: killed or stopped."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from sonorant.registry.tracking import open_store
from sonorant.training.run_directory import RunDirectory, read_metrics
from testbed.processes import isolated
from testbed.tiny_training import settings, tiny_features
from tests.support.imports import ROOT
from tests.support.settings import project_settings

TRAINING = "train_acoustic"
"""Name of the training in params.yaml, run folders and MLflow."""
PATIENCE = 240
"""Timeout in seconds."""


class Server:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            self.port = int(listener.getsockname()[1])
        self.uri = f"http://127.0.0.1:{self.port}"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start with the existing files and wait for an answer."""
        store, artifacts = f"sqlite:///{self.folder}/server.db", f"{self.folder}/server"
        command = [sys.executable, "-m", "mlflow", "server", "--port", str(self.port), "--workers", "1"]
        command += ["--backend-store-uri", store, "--artifacts-destination", artifacts]
        environment = os.environ | {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}  # unused processes
        with (self.folder / "server.log").open("a") as log:
            self.process = subprocess.Popen(command, start_new_session=True, env=environment, stdout=log, stderr=log)
        wait_until(self.answers, "the MLflow server answers")

    def vanish(self, how: str) -> None:
        """`killed`: refused connections; `hanging`: no answers."""
        self.signal(signal.SIGKILL if how == "killed" else signal.SIGSTOP)

    def come_back(self, how: str) -> None:
        if how == "killed":
            self.start()
        else:
            self.signal(signal.SIGCONT)

    def signal(self, number: int) -> None:
        assert self.process
        os.killpg(self.process.pid, number)
        if number == signal.SIGKILL:
            self.process.wait()
            self.process = None

    def answers(self) -> bool:
        """Within two seconds."""
        try:
            with urllib.request.urlopen(f"{self.uri}/health", timeout=2) as reply:
                return bool(reply.status == 200)
        except OSError:
            return False


class Stage:
    """The stage `train_predictor` with a tiny model in its own project."""

    def __init__(self, folder: Path, steps: int) -> None:
        self.folder = folder
        folder.mkdir()
        sections = project_settings()
        often = {"validate_every": max(1, steps // 6), "checkpoint_every": steps, "log_every": 5}
        model, train = settings("acoustic", steps=steps, **often)
        sections["acoustic"] |= model
        sections[TRAINING] |= train
        (folder / "params.yaml").write_text(yaml.safe_dump(sections))
        shutil.copy(ROOT / "dvc.yaml", folder)
        tiny_features(folder)

    def start(self, uri: str) -> subprocess.Popen[str]:
        """Start, tracked at `uri`."""
        words = "tasks.train_predictor --features features --codes codes --runs runs --out model"
        return self._python(words, uri, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def sync(self, uri: str) -> str:
        """Output of `sonorant sync-tracking`."""
        words = "sonorant.cli.main sync-tracking"
        return self._python(words, uri, stdout=subprocess.PIPE, stderr=subprocess.STDOUT).communicate()[0]

    def _python(self, words: str, uri: str, **streams: Any) -> subprocess.Popen[str]:
        env = isolated() | {"SONORANT_EXECUTION": "outage", "MLFLOW_TRACKING_URI": uri}
        command = [sys.executable, "-m", *words.split()]
        return subprocess.Popen(command, cwd=self.folder, env=env, text=True, **streams)

    @property
    def run(self) -> RunDirectory:
        """Wait for the run directory."""
        found = list((self.folder / "runs" / TRAINING).glob("*"))
        return RunDirectory(found[0] if found else self.folder / "absent")

    def step(self) -> int:
        """Last step logged."""
        return max((row["step"] for row in read_metrics(self.run.metrics)), default=0)

    def sent(self) -> int:
        """Last step confirmed by MLflow."""
        try:
            return int(json.loads((self.run.path / "tracking.json").read_text())["sent"]["steps"].get("train/loss", 0))
        except (OSError, ValueError):
            return 0

    def steps_per_second(self, since: float, until: float) -> float:
        """Between two times in unix seconds."""
        rows = [row for row in read_metrics(self.run.metrics) if "train/loss" in row["metrics"]]
        rows = [row for row in rows if since <= row["time"] <= until]
        if len(rows) < 3:
            raise RuntimeError("too few steps to measure a speed: give --seconds a larger number")
        return float((rows[-1]["step"] - rows[0]["step"]) / (rows[-1]["time"] - rows[0]["time"]))

    def delivered(self) -> dict[str, Any]:
        """Compare MLflow with the run directory; the run may not exist."""
        store = open_store()
        client, known = store.client, store.client.search_runs([store.experiment])
        runs = [run for run in known if run.data.tags.get("stage") == TRAINING]
        rows = [row for name in ("metrics.jsonl", "system.jsonl") for row in read_metrics(self.run.path / name)]
        local = Counter((name, row["step"]) for row in rows for name in row["metrics"])
        there: Counter[tuple[str, int]] = Counter()
        samples: set[str] = set()
        for run in runs[:1]:
            for key in {key for key, _ in local}:
                there.update((key, point.step) for point in client.get_metric_history(run.info.run_id, key))
            samples = {Path(file.path).name for file in client.list_artifacts(run.info.run_id, "samples")}
        return {
            "runs": len(runs),
            "status": runs[0].info.status if runs else None,
            "points": len(local),
            "missing": len(local - there),
            "repeated": sum(there.values()) - len(there),
            "samples": len(samples),
            "samples_missing": len({path.name for path in (self.run.path / "samples").glob("step-*")} - samples),
        }


def never_returns(server: Server, steps: int) -> dict[str, Any]:
    """Kill the server once it has points or a third of the steps are done; restart it after the stage and sync."""
    stage = Stage(server.folder / "project", steps)
    with running(stage.start(server.uri)) as process:
        wait_until(lambda: stage.sent() > 0 or stage.step() > steps / 3, "the first points are in MLflow", process)
        server.vanish("killed")
        killed_at = stage.sent()
        _, said = process.communicate(timeout=3600)
    trained = [row["time"] for row in read_metrics(stage.run.metrics)]
    server.start()
    before = stage.delivered()
    printed = stage.sync(server.uri)
    return {
        "exit_code": process.returncode,
        "steps": steps,
        "killed_after_step": killed_at,
        "steps_per_second": round(stage.steps_per_second(trained[0], trained[-1]), 2),
        "said": [line for line in said.splitlines() if "MLflow" in line][-1:],
        "missing_before_sync": before["missing"],
        "sync_says": printed.splitlines()[-1:],
        "delivered": stage.delivered(),
    }


def goes_and_comes(server: Server, steps: int, seconds: float) -> dict[str, Any]:
    """Kill and later stop the server during one training."""
    stage = Stage(server.folder / "project", steps)
    with running(stage.start(server.uri)) as process:
        wait_until(lambda: stage.sent() > 0, "the first points are in MLflow", process)
        for how in ("killed", "hanging"):
            server.vanish(how)
            time.sleep(seconds)
            server.come_back(how)
            wait_until(server.answers, "the server is back", process)
        assert process.poll() is None, "the training was over before the server came back"
        process.communicate(timeout=3600)
    return {"exit_code": process.returncode, "delivered": stage.delivered()}


def complete(delivered: dict[str, Any]) -> bool:
    """One finished run with all points and samples once."""
    wrong = ("missing", "repeated", "samples_missing")
    return delivered["runs"] == 1 and delivered["status"] == "FINISHED" and not any(delivered[name] for name in wrong)


@contextmanager
def served(folder: Path) -> Iterator[Server]:
    """Server on new files, also used by this process."""
    folder.mkdir()
    server = Server(folder)
    server.start()
    os.environ["MLFLOW_TRACKING_URI"] = server.uri
    try:
        yield server
    finally:
        if server.process:
            server.signal(signal.SIGKILL)


@contextmanager
def running(process: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    """Always end the stage and its ranks."""
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(60)


def wait_until(condition: Callable[[], bool], what: str, process: subprocess.Popen[str] | None = None) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if process and process.poll() is not None:
            raise RuntimeError(f"the stage ended before {what}: {process.stderr.read() if process.stderr else ''}")
        if time.monotonic() > deadline:
            raise RuntimeError(f"not within {PATIENCE} s: {what}")
        time.sleep(0.2)
