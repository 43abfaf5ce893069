"""Run this project's Prefect server, Prefect worker and MLflow server on loopback: `make serve` and `make stop`.

All files are in runs/; the user's own Prefect and MLflow are neither read nor changed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import urllib.request
from pathlib import Path

from infra.background import Background, answers, call, check_free, port_from_environment
from sonorant.files import read_json, write_json
from sonorant.registry.tracking import open_store
from sonorant.registry.tracking.mlflow_store import models_page
from tasks.stage import run

STATE = Path("runs/serve")
SERVERS = Background(STATE)
POOL = "sonorant"
NODES = "sonorant-nodes"  # for other machines of a training run; has no workers until they are started there
NAMES = ("worker", "prefect", "mlflow")  # in the order of stopping


def start() -> None:
    """Start the servers, register the deployments of prefect.yaml, and return once all servers respond.

    Raises SonorantError if a port is in use or a server does not start, after stopping all servers.
    """
    prefect = port_from_environment("SONORANT_PREFECT_PORT", 4200)
    mlflow = port_from_environment("SONORANT_MLFLOW_PORT", 5000)
    if not all(SERVERS.alive(name) for name in NAMES):
        stop()
        check_free(prefect, "SONORANT_PREFECT_PORT", "make serve")
        check_free(mlflow, "SONORANT_MLFLOW_PORT", "make serve")
        try:
            launch_all(f"http://127.0.0.1:{prefect}", f"http://127.0.0.1:{mlflow}")
        except BaseException:
            stop()
            raise
    addresses = read_json(STATE / "addresses.json")
    print(f"MLflow's models: {models_page(addresses['MLFLOW_TRACKING_URI'])}", file=sys.stderr)
    for name, value in addresses.items():
        print(f"export {name}={value}")


def launch_all(prefect_url: str, mlflow_url: str) -> None:
    addresses = {"PREFECT_API_URL": f"{prefect_url}/api", "MLFLOW_TRACKING_URI": mlflow_url}
    environment = {
        **os.environ,
        **addresses,
        "PREFECT_HOME": str(Path("runs/prefect").resolve()),
        "PYTHONUNBUFFERED": "1",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    Path(environment["PREFECT_HOME"]).mkdir(parents=True, exist_ok=True)
    os.environ.pop("MLFLOW_TRACKING_URI", None)
    # Created before the server starts, so that artifacts are in a plain folder, readable without the server.
    database = open_store().uri
    prefect = [sys.executable, "-m", "prefect"]
    mlflow = [sys.executable, "-m", "mlflow", "server", "--workers", "1", "--backend-store-uri", database]
    mlflow += ["--artifacts-destination", str(Path("runs/mlartifacts").resolve())]
    SERVERS.launch("mlflow", [*mlflow, "--host", "127.0.0.1", "--port", mlflow_url.rpartition(":")[2]], environment)
    port = prefect_url.rpartition(":")[2]
    SERVERS.launch("prefect", [*prefect, "server", "start", "--host", "127.0.0.1", "--port", port], environment)
    SERVERS.wait_for("prefect", lambda: answers(f"{prefect_url}/api/health"))
    for pool in (POOL, NODES):
        call([*prefect, "work-pool", "create", pool, "--type", "process", "--overwrite"], environment)
    call([*prefect, "--no-prompt", "deploy", "--all"], environment)
    worker = [*prefect, "worker", "start", "--pool", POOL, "--type", "process", "--name", "local"]
    SERVERS.launch("worker", worker, environment)
    SERVERS.wait_for("worker", lambda: worker_is_online(prefect_url))
    SERVERS.wait_for("mlflow", lambda: answers(f"{mlflow_url}/health"))
    write_json(STATE / "addresses.json", addresses)


def stop() -> None:
    for name in NAMES:
        SERVERS.stop(name)


def worker_is_online(prefect_url: str) -> bool:
    address = f"{prefect_url}/api/work_pools/{POOL}/workers/filter"
    request = urllib.request.Request(address, data=b"{}", headers={"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=5) as reply:
            return any(worker["status"] == "ONLINE" for worker in json.load(reply))
    except OSError:
        return False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("start", "stop"))
    (start if parser.parse_args().action == "start" else stop)()


if __name__ == "__main__":
    run(main)
