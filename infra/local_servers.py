"""Prefect server, Prefect worker and MLflow server of this project on loopback: `make serve` and `make stop`.

All they keep lies in runs/: nothing of the user's own Prefect or MLflow is read or changed. Knows nothing of the
pipeline.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from infra.background import Background, answers, call, check_free, port_from_environment
from sonorant.files import read_json, write_json
from sonorant.registry.tracking import open_store
from tasks.stage import run

STATE = Path("runs/serve")
SERVERS = Background(STATE)
POOL = "sonorant"
NODES = "sonorant-nodes"  # of the other machines of a training; empty until workers on them are started
NAMES = ("worker", "prefect", "mlflow")  # in the order to stop them


@dataclass(frozen=True, kw_only=True)
class Ports:
    """Ports on loopback, from the environment."""

    prefect: int
    """SONORANT_PREFECT_PORT, 4200 if unset."""
    mlflow: int
    """SONORANT_MLFLOW_PORT, 5000 if unset."""

    @classmethod
    def from_environment(cls) -> Ports:
        """Raises SonorantError for what is no port."""
        return cls(
            prefect=port_from_environment("SONORANT_PREFECT_PORT", 4200),
            mlflow=port_from_environment("SONORANT_MLFLOW_PORT", 5000),
        )

    @property
    def addresses(self) -> dict[str, str]:
        """What clients need."""
        return {
            "PREFECT_API_URL": f"http://127.0.0.1:{self.prefect}/api",
            "MLFLOW_TRACKING_URI": f"http://127.0.0.1:{self.mlflow}",
        }


def start(ports: Ports) -> None:
    """Start what is not running, register the deployments of prefect.yaml, and return once all answer.

    Raises SonorantError if a port is in use or a server does not start; what was started until then is stopped again.
    """
    started = False
    try:
        if SERVERS.alive("prefect") is None or SERVERS.alive("mlflow") is None or SERVERS.alive("worker") is None:
            stop()
            check_free(ports.prefect, "SONORANT_PREFECT_PORT", "make serve")
            check_free(ports.mlflow, "SONORANT_MLFLOW_PORT", "make serve")
            started = True
            launch_all(ports)
    except BaseException:
        if started:
            stop()
        raise
    for name, value in read_json(STATE / "addresses.json").items():
        print(f"export {name}={value}")


def launch_all(ports: Ports) -> None:
    """Servers first, then what needs them."""
    environment = server_environment(ports)
    Path(environment["PREFECT_HOME"]).mkdir(parents=True, exist_ok=True)
    os.environ.pop("MLFLOW_TRACKING_URI", None)
    # Before the server makes it: artifacts must lie in a plain folder, readable with and without the server.
    database = open_store().uri
    prefect = [sys.executable, "-m", "prefect"]
    mlflow = [sys.executable, "-m", "mlflow", "server", "--workers", "1", "--backend-store-uri", database]
    mlflow += ["--artifacts-destination", str(Path("runs/mlartifacts").resolve())]
    SERVERS.launch("mlflow", [*mlflow, "--host", "127.0.0.1", "--port", str(ports.mlflow)], environment)
    SERVERS.launch(
        "prefect", [*prefect, "server", "start", "--host", "127.0.0.1", "--port", str(ports.prefect)], environment
    )
    SERVERS.wait_for("prefect", lambda: answers(f"http://127.0.0.1:{ports.prefect}/api/health"))
    for pool in (POOL, NODES):
        call([*prefect, "work-pool", "create", pool, "--type", "process", "--overwrite"], environment)
    call([*prefect, "--no-prompt", "deploy", "--all"], environment)
    SERVERS.launch(
        "worker", [*prefect, "worker", "start", "--pool", POOL, "--type", "process", "--name", "local"], environment
    )
    SERVERS.wait_for("worker", lambda: worker_is_online(ports))
    SERVERS.wait_for("mlflow", lambda: answers(f"http://127.0.0.1:{ports.mlflow}/health"))
    write_json(STATE / "addresses.json", ports.addresses)


def stop() -> None:
    """End what `start` started, with all that runs in it, and nothing else."""
    for name in NAMES:
        SERVERS.stop(name)


def server_environment(ports: Ports) -> dict[str, str]:
    """Environment of the servers and of the flows that the worker starts."""
    return {
        **os.environ,
        **ports.addresses,
        "PREFECT_HOME": str(Path("runs/prefect").resolve()),
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "DO_NOT_TRACK": "1",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "PYTHONUNBUFFERED": "1",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }


def worker_is_online(ports: Ports) -> bool:
    """Whether the pool has a worker that reports."""
    address = f"http://127.0.0.1:{ports.prefect}/api/work_pools/{POOL}/workers/filter"
    request = urllib.request.Request(address, data=b"{}", headers={"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=5) as reply:
            return any(worker["status"] == "ONLINE" for worker in json.load(reply))
    except OSError:
        return False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("start", "stop"))
    if parser.parse_args().action == "start":
        start(Ports.from_environment())
    else:
        stop()


if __name__ == "__main__":
    run(main)
