"""Prefect server, Prefect worker and MLflow server of this project on loopback: `make serve` and `make stop`.

All they keep lies in runs/: nothing of the user's own Prefect or MLflow is read or changed. Knows nothing of the
pipeline.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from sonorant.errors import SonorantError
from sonorant.files import read_json, write_json
from sonorant.tracking import open_store
from tasks.stage import run

STATE = Path("runs/serve")
POOL = "sonorant"
NODES = "sonorant-nodes"  # of the other machines of a training; empty until workers on them are started
NAMES = ("worker", "prefect", "mlflow")  # in the order to stop them
START_SECONDS, STOP_SECONDS = 180.0, 35.0


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
        found = {}
        for name, default in (("prefect", "4200"), ("mlflow", "5000")):
            variable = f"SONORANT_{name.upper()}_PORT"
            text = os.environ.get(variable) or default
            if not text.isdecimal() or not 0 < int(text) < 65536:
                raise SonorantError(f"{variable}: '{text}' is no port; give a number from 1 to 65535")
            found[name] = int(text)
        return cls(**found)

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
        if alive("prefect") is None or alive("mlflow") is None or alive("worker") is None:
            stop()
            check_free(ports)
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
    os.environ.pop("MLFLOW_TRACKING_URI", None)
    # Before the server makes it: artifacts must lie in a plain folder, readable with and without the server.
    database = open_store().uri
    prefect = [sys.executable, "-m", "prefect"]
    mlflow = [sys.executable, "-m", "mlflow", "server", "--workers", "1", "--backend-store-uri", database]
    mlflow += ["--artifacts-destination", str(Path("runs/mlartifacts").resolve())]
    launch("mlflow", [*mlflow, "--host", "127.0.0.1", "--port", str(ports.mlflow)], environment)
    launch("prefect", [*prefect, "server", "start", "--host", "127.0.0.1", "--port", str(ports.prefect)], environment)
    wait_for("prefect", lambda: answers(f"http://127.0.0.1:{ports.prefect}/api/health"))
    for pool in (POOL, NODES):
        call([*prefect, "work-pool", "create", pool, "--type", "process", "--overwrite"], environment)
    call([*prefect, "--no-prompt", "deploy", "--all"], environment)
    launch("worker", [*prefect, "worker", "start", "--pool", POOL, "--type", "process", "--name", "local"], environment)
    wait_for("worker", lambda: worker_is_online(ports))
    wait_for("mlflow", lambda: answers(f"http://127.0.0.1:{ports.mlflow}/health"))
    write_json(STATE / "addresses.json", ports.addresses)


def stop() -> None:
    """End what `start` started, with all that runs in it, and nothing else: a pid that now is another process's is left
    alone."""
    for name in NAMES:
        process = alive(name)
        if process is not None:
            print(f"stopping {name}", file=sys.stderr)
            end(process)
        (STATE / f"{name}.json").unlink(missing_ok=True)


def end(process: psutil.Process) -> None:
    """SIGTERM to a server and its children; a flow among them needs time to end its stage. SIGKILL to what is left."""
    descendants = process.children(recursive=True)
    for each in [process, *process.children()]:
        with suppress(psutil.Error):
            each.send_signal(signal.SIGTERM)
    _, left = psutil.wait_procs([process, *descendants], timeout=STOP_SECONDS)
    for each in left:
        with suppress(psutil.Error):
            each.kill()
    psutil.wait_procs(left, timeout=5)


def alive(name: str) -> psutil.Process | None:
    """The server's process if it runs; a process of the same pid that started at another time is not it."""
    file = STATE / f"{name}.json"
    if not file.exists():
        return None
    known = read_json(file)
    with suppress(psutil.Error):
        process = psutil.Process(known["pid"])
        if process.create_time() == known["created"] and process.status() != psutil.STATUS_ZOMBIE:
            return process
    return None


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


def check_free(ports: Ports) -> None:
    """Raises SonorantError naming the port that something else uses."""
    for name, port in (("PREFECT", ports.prefect), ("MLFLOW", ports.mlflow)):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                raise SonorantError(
                    f"port {port} is in use; choose another: SONORANT_{name}_PORT=<port> make serve"
                ) from None


def launch(name: str, command: list[str], environment: dict[str, str]) -> None:
    """Start a server that outlives this process, its output in runs/serve/<name>.log."""
    for folder in (STATE, Path(environment["PREFECT_HOME"])):
        folder.mkdir(parents=True, exist_ok=True)
    print(f"starting {name}", file=sys.stderr)
    with (STATE / f"{name}.log").open("w") as log:
        child = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    write_json(STATE / f"{name}.json", {"pid": child.pid, "created": psutil.Process(child.pid).create_time()})


def wait_for(name: str, ready: Callable[[], bool]) -> None:
    """Raises SonorantError if the server ends or is not ready in time."""
    deadline = time.monotonic() + START_SECONDS
    while not ready():
        if alive(name) is None or time.monotonic() > deadline:
            last = [line for line in (STATE / f"{name}.log").read_text(errors="replace").splitlines() if line.strip()][
                -1:
            ]
            raise SonorantError(f"{name} did not start; {STATE / name}.log ends: {' '.join(last)}")
        time.sleep(0.3)


def answers(url: str) -> bool:
    """Whether a GET of the address succeeds."""
    try:
        with urllib.request.urlopen(url, timeout=5) as reply:
            return bool(reply.status == 200)
    except OSError:
        return False


def worker_is_online(ports: Ports) -> bool:
    """Whether the pool has a worker that reports."""
    address = f"http://127.0.0.1:{ports.prefect}/api/work_pools/{POOL}/workers/filter"
    request = urllib.request.Request(address, data=b"{}", headers={"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=5) as reply:
            return any(worker["status"] == "ONLINE" for worker in json.load(reply))
    except OSError:
        return False


def call(command: list[str], environment: dict[str, str]) -> None:
    """Run a client command. Raises SonorantError with its last line if it fails."""
    done = subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        last = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()][-1:]
        raise SonorantError(f"{shlex.join(command[2:])} failed: {' '.join(last)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("start", "stop"))
    if parser.parse_args().action == "start":
        start(Ports.from_environment())
    else:
        stop()


if __name__ == "__main__":
    run(main)
