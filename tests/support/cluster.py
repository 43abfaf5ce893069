"""A real cluster: scheduler and workers started by the documented commands, on loopback or on other machines."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from sonorant.processes import SCHEDULER
from tests.support.imports import ROOT
from tests.support.ports import free_port
from tests.support.waiting import wait_until


class Cluster:
    """A scheduler and its workers."""

    def __init__(self, folder: Path, tls: Mapping[str, str] | None = None) -> None:
        """`folder`: for the processes' output. `tls`: Dask's environment variables for encryption."""
        self.folder, self.port, self._tls = folder, free_port(), tls
        self.address = f"{'tls' if tls else 'tcp'}://127.0.0.1:{self.port}"
        self._started: list[subprocess.Popen[bytes]] = []
        self.worker: subprocess.Popen[bytes]
        self.scheduler = self.start_scheduler()

    def start_scheduler(self) -> subprocess.Popen[bytes]:
        """Start the scheduler at the cluster's address and wait until it accepts connections."""
        before = self.said("scheduler").count("Scheduler at")
        ports = ("--port", str(self.port), "--dashboard-port", str(free_port()))
        self.scheduler = self._start("scheduler", "scheduler", *ports, *(["--tls"] if self._tls else []))
        wait_until(lambda: self.said("scheduler").count("Scheduler at") > before)
        return self.scheduler

    def start_workers(
        self, name: str, processes: int, cwd: Path = ROOT, before: Sequence[str] = ()
    ) -> subprocess.Popen[bytes]:
        """Start workers and wait until they are registered; `before`: words before the command."""
        known = self._joined(name)
        self.worker = self._start(name, "worker", self.address, "--processes", str(processes), cwd=cwd, before=before)
        wait_until(lambda: self._joined(name) == known + processes)
        return self.worker

    def said(self, name: str) -> str:
        file = self.folder / f"{name}.log"
        return file.read_text(errors="replace") if file.exists() else ""

    def end(self) -> None:
        """End all processes, whatever their state."""
        for process in self._started:
            with suppress(psutil.Error):
                for child in psutil.Process(process.pid).children(recursive=True):
                    with suppress(psutil.Error):
                        child.kill()
            process.kill()
            process.wait()

    def _joined(self, name: str) -> int:
        return len(re.findall("Registered to", self.said(name)))

    def _start(self, log: str, *words: str, cwd: Path = ROOT, before: Sequence[str] = ()) -> subprocess.Popen[bytes]:
        with (self.folder / f"{log}.log").open("ab") as output:
            command = [*before, sys.executable, "-m", "sonorant.cli.main", *words]
            environment = outside(os.environ) | {"PYTHONPATH": str(cwd)} | dict(self._tls or {})
            process = subprocess.Popen(command, cwd=cwd, env=environment, stdout=output, stderr=output)
        self._started.append(process)
        return process


def outside(environment: Mapping[str, str]) -> dict[str, Any]:
    """An environment without the cluster of the user who runs the tests."""
    return {name: value for name, value in environment.items() if name != SCHEDULER and not name.startswith("DASK_")}


@contextmanager
def cluster(folder: Path, workers: int = 2, tls: Mapping[str, str] | None = None) -> Iterator[Cluster]:
    """A cluster for the block; all its processes end with it."""
    made = Cluster(folder, tls)
    try:
        if workers:
            made.start_workers("worker", workers)
        yield made
    finally:
        made.end()


def stopped(process: int, seconds: float) -> None:
    """Pause a process for some seconds, like a machine that hangs."""
    os.kill(process, signal.SIGSTOP)
    subprocess.Popen(["sh", "-c", f"sleep {seconds}; kill -CONT {process}"])
