"""Trainings in separate processes, for tests and benchmarks that disturb them."""

import dataclasses
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from sonorant.training.distributed.launch import environment
from sonorant.training.run_directory import RunDirectory
from testbed.tiny_training import tiny_job
from tests.support.imports import ROOT
from tests.support.waiting import PATIENCE

SLOW_WRITE = 0.5
"""Seconds that each write of a checkpoint takes on a slow disk."""


class Training:
    """A tiny training under torchrun in a separate folder; `job` contains changes to its job."""

    def __init__(
        self, kind: str, features: Path, folder: Path, job: dict[str, Any] | None = None, **changes: Any
    ) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        self.job = dataclasses.replace(tiny_job(kind, features, folder, **changes), **job or {})
        self.run = RunDirectory(folder / "run")
        self.output, self.job_file = folder / "output.txt", folder / "job.json"

    def start(
        self, processes: int = 1, *, before: Callable[[], None] | None = None, **variables: str
    ) -> subprocess.Popen[bytes]:
        """Start or resume the training; `before` is called in the new process. For DISTURBED, see the worker."""
        self.job.write(self.job_file)
        given = {**os.environ, "PET_NPROC_PER_NODE": str(processes)}
        env = environment(given, self.job.train["micro_batches_per_step"]) | {"OMP_NUM_THREADS": "1"} | variables
        worker = "tests.training.disturbed_worker" if "DISTURBED" in env else "sonorant.training.worker"
        command = [sys.executable, "-m", "sonorant.training.distributed.agent", "-m", worker, str(self.job_file)]
        with self.output.open("w") as output:
            return subprocess.Popen(
                command, env=env, cwd=ROOT, stdout=output, stderr=output, start_new_session=True, preexec_fn=before
            )

    def said(self) -> str:
        """Output since the last start."""
        return self.output.read_text()

    def finish(self, processes: int = 1, **variables: str) -> str:
        """Run to the end; returns the output."""
        assert self.start(processes, before=None, **variables).wait(PATIENCE) == 0, self.said()
        return self.said()

    def failed(self, agent: subprocess.Popen[bytes]) -> str:
        """Wait for a training that must fail, and return its one error line."""
        assert agent.wait(PATIENCE) != 0, self.said()
        assert "Traceback" not in self.said(), self.said()
        errors = [line for line in self.said().splitlines() if line.startswith("error: ")]
        assert len(errors) == 1, self.said()
        return errors[0]

    def wait_for(self, condition: Callable[[], Any], agent: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert agent.poll() is None and time.monotonic() < deadline, self.said()
            time.sleep(0.02)


def ranks_of(agent: subprocess.Popen[bytes]) -> dict[int, psutil.Process]:
    children = psutil.Process(agent.pid).children(recursive=True)
    return {int(child.environ()["RANK"]): child for child in children if "RANK" in child.environ()}
