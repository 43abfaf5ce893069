"""Starts torchrun for a job and ends it cleanly. Knows nothing of models, DVC or Prefect.

torchrun is configured by `PET_*` variables only: what is set outside (by a person, Slurm, Kubernetes) is kept, the rest is filled in
from the machine.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import torch

from sonorant.errors import SonorantError
from sonorant.training.ranks import die_with_parent
from sonorant.training.run_directory import RunDirectory
from sonorant.training.worker import Job

SHUTDOWN_SECONDS = 20
"""How long torchrun waits for its ranks to save after a SIGTERM."""


def environment(given: Mapping[str, str], micro_batches_per_step: int) -> dict[str, str]:
    """`given` with torchrun's settings completed: one node, a process a GPU or a CPU core, threads to match.

    There are never more processes than micro-batches in a step, since the others would have nothing to do. On CPUs, two processes
    with a thread each are 1.5 times as fast as one with two threads: what the loss needs (Fourier transforms, sorting) has no threads.
    """
    cores = len(os.sched_getaffinity(0))
    env = dict(given)
    env.setdefault("PET_NNODES", "1")
    processes = env.setdefault("PET_NPROC_PER_NODE", str(min(torch.cuda.device_count() or cores, micro_batches_per_step)))
    if env["PET_NNODES"] == "1" and "PET_RDZV_ENDPOINT" not in env:
        env.setdefault("PET_STANDALONE", "1")
    if processes.isdigit():
        env.setdefault("OMP_NUM_THREADS", str(max(1, cores // int(processes))))
        if env["PET_NNODES"].isdigit():
            env["SONORANT_WORLD_SIZE"] = str(int(env["PET_NNODES"]) * int(processes))  # what the ranks expect to meet
    env.setdefault("PET_SHUTDOWN_TIMEOUT", str(SHUTDOWN_SECONDS))
    # Threads that spin while they wait take the cores from their neighbours.
    env.setdefault("OMP_WAIT_POLICY", "passive")
    env.setdefault("GOMP_SPINCOUNT", "0")
    env["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"  # restarted ranks would read stale addresses (pytorch issue 135712)
    return env


def launch(job: Job) -> None:
    """Train `job` under torchrun until it is finished.

    SIGTERM is passed on: the ranks save and end, and a SonorantError says how to go on. Raises SonorantError when training fails.
    """
    run = RunDirectory(Path(job.run))
    before = run.status()
    with tempfile.TemporaryDirectory() as folder:  # not in the run directory: another execution may be starting there too
        job_file = Path(folder) / "job.json"
        job.write(job_file)
        _run_agent(job_file, environment(os.environ, job.train["micro_batches_per_step"]))
    status = run.status()
    if status == before:
        raise SonorantError(f"{job.recipe}: training did not start, see above")
    if status["state"] == "stopped":
        raise SonorantError(f"{job.recipe}: stopped and saved at step {status['step']}; the same command resumes there")
    if status["state"] != "finished":
        raise SonorantError(
            f"{job.recipe}: training failed after step {status['step']}, see above; the same command resumes from its last checkpoint"
        )


def _run_agent(job_file: Path, env: dict[str, str]) -> None:
    """Run torchrun to its end, whatever that is; a SIGTERM or Ctrl-C is passed on to it."""
    command = [sys.executable, "-m", "sonorant.training.agent", "-m", "sonorant.training.worker", str(job_file)]
    child = subprocess.Popen(command, env=env, start_new_session=True, preexec_fn=die_with_parent)
    former = {
        number: signal.signal(number, lambda *_: child.send_signal(signal.SIGTERM)) for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        child.wait()
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
