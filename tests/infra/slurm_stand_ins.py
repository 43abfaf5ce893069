"""Slurm's commands as far as train.sbatch uses them, with a job's nodes as processes of this machine.

Features of a real cluster (placement, cgroups, the queue) are not imitated; `scontrol requeue` only leaves a note.
"""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

SRUN = """\
#!{python}
import os, signal, subprocess, sys
from pathlib import Path

options = [word for word in sys.argv[1:] if word.startswith("--")]
command = sys.argv[1 + len(options):]
tasks = []
for node in range(int(os.environ["SLURM_JOB_NUM_NODES"])):
    number = str(node)
    own = dict(os.environ, SLURM_NODEID=number, SLURM_PROCID=number, SLURM_LOCALID="0", SLURMD_NODENAME="localhost")
    tasks.append(subprocess.Popen(command, env=own, start_new_session=True))
Path("{state}/tasks").write_text(" ".join(str(task.pid) for task in tasks))
# Like the real one, it does not pass SIGTERM on.
signal.signal(signal.SIGTERM, lambda *_: [task.kill() for task in tasks])
sys.exit(max(abs(task.wait()) for task in tasks))
"""
SCANCEL = """\
#!/bin/sh
# Signals each node's task and nothing that the task started, as Slurm does unless its cgroup.conf says otherwise.
[ "$1 $2" = "--signal=TERM $SLURM_JOB_ID" ] || exit 1
kill -TERM $(cat {state}/tasks)
"""
SCONTROL = """\
#!/bin/sh
case "$1 $2" in
"show hostnames") for node in $(seq "$SLURM_JOB_NUM_NODES"); do echo localhost; done ;;
"requeue $SLURM_JOB_ID") echo "$SLURM_JOB_ID" >>{state}/requeued ;;
*) exit 1 ;;
esac
"""


class Slurm:
    def __init__(self, folder: Path) -> None:
        """`folder`: a new folder for the commands and their notes."""
        self.folder = folder
        self._jobs: list[subprocess.Popen[str]] = []
        for name, text in {"srun": SRUN, "scancel": SCANCEL, "scontrol": SCONTROL}.items():
            file = folder / name
            file.write_text(text.replace("{state}", str(folder)).replace("{python}", sys.executable))
            file.chmod(0o755)

    def submit(self, root: Path, *words: str, nodes: int, processes: int) -> subprocess.Popen[str]:
        """Start a batch script in `root` as Slurm would on its first node, with `processes` per node."""
        foreign = ("PET_", "SLURM_", "SONORANT_", "MLFLOW_")
        env = {name: value for name, value in os.environ.items() if not name.startswith(foreign)} | {
            "PATH": f"{self.folder}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "SLURM_JOB_ID": str(os.getpid()),
            "SLURM_JOB_NODELIST": f"localhost[1-{nodes}]",
            "SLURM_JOB_NUM_NODES": str(nodes),
            "SLURM_CPUS_ON_NODE": "1",
            "SLURM_GPUS_ON_NODE": str(processes),
            "OMP_NUM_THREADS": "1",
        }
        output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        self._jobs.append(subprocess.Popen(["bash", *words], cwd=root, env=env, **output))
        return self._jobs[-1]

    def end(self) -> None:
        """Kill what a failed test left running; training ends with its launcher."""
        if any(job.poll() is None for job in self._jobs):
            for task in self._noted("tasks"):
                with suppress(ProcessLookupError):
                    os.kill(int(task), signal.SIGKILL)
            self._jobs[-1].kill()

    @property
    def requeued(self) -> int:
        """Number of times a job was requeued."""
        return len(self._noted("requeued"))

    def _noted(self, name: str) -> list[str]:
        file = self.folder / name
        return file.read_text().split() if file.exists() else []
