"""A Prefect server between several machines and a worker on each: how `train-and-export` trains on all of them."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from testbed.machines import BRIDGE, Machine

PORT = 4200
START_SECONDS = 120.0
BUSY_SECONDS = 60.0
PREFECT = [sys.executable, "-m", "prefect"]


class Pool:
    """The first machine works for the pool of the flow, the others for the pool of nodes. Trains as `ByHand` of
    test_two_machines.py does."""

    def __init__(
        self, copies: dict[Machine, Path], folder: Path, environment: Callable[[Path], dict[str, str]]
    ) -> None:
        self.copies, self.folder, self._environment = copies, folder, environment
        self.api = f"http://{BRIDGE}:{PORT}/api"
        self._workers: dict[Machine, subprocess.Popen[bytes]] = {}
        self._flow_run = ""

    def __enter__(self) -> Pool:
        log = (self.folder / "server.log").open("wb")
        command = [*PREFECT, "server", "start", "--host", BRIDGE, "--port", str(PORT)]
        self._server = subprocess.Popen(command, env=self.environment("server", self.folder), stdout=log, stderr=log)
        try:
            self._wait(lambda: self._answers("/health"), "the server")
            for machine in self.copies:
                self.revive(machine)
            first = next(iter(self.copies.values()))
            deploy, env = [*PREFECT, "--no-prompt", "deploy", "--all"], self.environment("deploy", first)
            subprocess.run(deploy, cwd=first, env=env, stdout=subprocess.DEVNULL, check=True)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for machine in self.copies:
            machine.kill()
        self._server.kill()
        self._server.wait()

    def environment(self, name: str, project: Path) -> dict[str, str]:
        """Environment of a Prefect process, which keeps everything in a folder of its own."""
        home = self.folder / f"prefect-{name}"
        home.mkdir(exist_ok=True)
        return self._environment(project) | {
            "PREFECT_HOME": str(home),
            "PREFECT_API_URL": self.api,
            "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
            "PREFECT_WORKER_QUERY_SECONDS": "2",
            "MLFLOW_TRACKING_URI": f"sqlite:///{project}/runs/mlflow.db",
        }

    def revive(self, machine: Machine) -> None:
        """Start the machine's worker in its copy of the project, and wait until it asks for work."""
        first = machine is next(iter(self.copies))
        pool = "sonorant" if first else "sonorant-nodes"
        project, name = self.copies[machine], f"{machine.name}-{time.monotonic_ns()}"
        command = [*PREFECT, "worker", "start", "--pool", pool, "--type", "process", "--limit", "1", "--name", name]
        environment = self.environment(machine.name, project)
        self._workers[machine] = machine.start(command, project, environment, self.folder / f"{machine.name}.log")

        def online() -> bool:
            try:
                workers = self.ask(f"/work_pools/{pool}/workers/filter", {})
            except OSError:
                return False
            return any(worker["name"] == name for worker in workers)

        self._wait(online, f"the worker on {machine.name}")

    def start(self, nodes: int) -> None:
        """Run the deployment."""
        deployment = self.ask("/deployments/name/train-and-export/local")
        parameters = {"stages": ["train_predictor"], "register": False, "nodes": nodes}
        scheduled = {"parameters": parameters, "state": {"type": "SCHEDULED"}}
        self._flow_run = self.ask(f"/deployments/{deployment['id']}/create_flow_run", scheduled)["id"]

    def ended(self) -> bool | None:
        """By the flow run's state."""
        state = self.ask(f"/flow_runs/{self._flow_run}")["state"]["type"]
        return {"COMPLETED": True, "FAILED": False, "CRASHED": False, "CANCELLED": False}.get(state)

    def said(self) -> str:
        """The logs of the flow run and its end."""
        asked = {"logs": {"flow_run_id": {"any_": [self._flow_run]}}, "sort": "TIMESTAMP_ASC", "limit": 200}
        lines = [row["message"] for row in self.ask("/logs/filter", asked)]
        return "\n".join([*lines, str(self.ask(f"/flow_runs/{self._flow_run}")["state"]["message"])])

    def servants(self) -> set[int]:
        """The workers."""
        return {worker.pid for worker in self._workers.values()}

    def ask(self, path: str, body: Any = None) -> Any:
        """The server's answer; a body is posted. If its database is busy (503) it is asked again, as Prefect's own
        clients do."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.api + path, data=data, headers={"Content-Type": "application/json"})
        deadline = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                with urllib.request.urlopen(request, timeout=20) as reply:
                    return json.load(reply)
            except urllib.error.HTTPError as error:
                if error.code != 503 or time.monotonic() > deadline:
                    raise
                time.sleep(1.0)

    def _answers(self, path: str) -> bool:
        try:
            self.ask(path)
        except OSError:
            return False
        return True

    def _wait(self, ready: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not ready():
            if time.monotonic() > deadline or self._server.poll() is not None:
                raise SystemExit(f"{what} did not start; see {self.folder}")
            time.sleep(0.3)
