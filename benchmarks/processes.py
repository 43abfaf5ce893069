"""Processes that benchmarks start: their environment, the job they are given and the answer they print.

Imports no torch: it would show in the memory that a process measures of itself.
"""

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
    """Run `python -m module words` with `job` as JSON on stdin; the JSON in the last line of stdout. Raises
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
    """The other side of `ask`: do the task that argv[1] names with the job on stdin, and print what it returns."""
    print(json.dumps(tasks[sys.argv[1]](job(**json.load(sys.stdin)))))


def memory_mib(key: str) -> float | None:
    """MiB of this process: VmRSS now, VmHWM at most so far; None where the system does not say. getrusage would count
    the peak of the process that started this one too."""
    status = Path("/proc/self/status")
    if not status.exists():
        return None
    [kibibytes] = re.findall(rf"^{key}:\s+(\d+) kB", status.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return round(int(kibibytes) / 1024, 1)


def torchrun(*words: object, worker: str = "sonorant.training.worker") -> list[str]:
    """The command that starts ranks of `worker`, as the stages start theirs; its settings are in the environment."""
    return [sys.executable, "-m", "sonorant.training.distributed.agent", "-m", worker, *map(str, words)]
