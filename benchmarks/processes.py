"""Processes started by benchmarks: their environment, job and printed answer. Imports no torch, which would show
in a process's own memory figures."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from sonorant.errors import SonorantError

ROOT = Path(__file__).parents[1]


def ask(module: str, *words: str, job: Any = None, **environment: str) -> Any:
    """Run `python -m module words` with `job` as JSON on stdin; return the JSON in the last line of stdout. Raises
    SonorantError if the process fails."""
    done = subprocess.run(
        [sys.executable, "-m", module, *words],
        input=json.dumps(job),
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | environment,
    )
    if done.returncode:
        raise SonorantError(f"{' '.join([module, *words])}: ended with status {done.returncode}; see above")
    return json.loads(done.stdout.splitlines()[-1])


def answer(job: Callable[..., Any], tasks: Mapping[str, Callable[[Any], Any]]) -> None:
    """Counterpart of `ask`: run the task named by argv[1] with the job from stdin, and print its result."""
    print(json.dumps(tasks[sys.argv[1]](job(**json.load(sys.stdin)))))


def memory_mib(key: str) -> float | None:
    """MiB of this process: VmRSS now, VmHWM at its peak; None if the system does not report it. getrusage would
    include the parent's peak."""
    status = Path("/proc/self/status")
    if not status.exists():
        return None
    [kibibytes] = re.findall(rf"^{key}:\s+(\d+) kB", status.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return round(int(kibibytes) / 1024, 1)


def torchrun(*words: object, worker: str = "sonorant.training.worker") -> list[str]:
    """Command that starts ranks of `worker` as the stages do; its settings are in the environment."""
    return [sys.executable, "-m", "sonorant.training.distributed.agent", "-m", worker, *map(str, words)]
