"""Workers that prepare a corpus during a run: processes started for it on this machine, or a cluster that is there.

python -m flows.workers N: the former, until its standard input ends, as it does with the process that started it.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sonorant.errors import SonorantError
from sonorant.extras.cluster.address import checked_address, require_dask
from sonorant.extras.cluster.command import MEMORY_SETTING

PARAMETER = "workers"
LOOPBACK = "127.0.0.1"


def check_workers(workers: int | str) -> None:
    """Raises SonorantError if the parameter `workers` is neither a number of processes nor an address."""
    if isinstance(workers, str):
        checked_address(workers, PARAMETER)
    elif workers < 0:
        raise SonorantError(f"{PARAMETER} is {workers}; give a number of processes, or the address of a scheduler")
    elif workers:
        require_dask(PARAMETER)


@contextmanager
def cluster(workers: int | str) -> Iterator[str | None]:
    """Address of the scheduler for a run: a given one, that of `workers` processes which end with the body, or None.
    Raises SonorantError if they do not start."""
    if isinstance(workers, str) or not workers:
        yield workers or None
        return
    command = [sys.executable, "-m", "flows.workers", str(workers)]
    # in a session of its own, so that Ctrl-C ends the stage first, and the workers with this process's end of the pipe
    own: dict[str, Any] = {"cwd": Path(__file__).parents[1], "start_new_session": True, "text": True}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **own) as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        if not address:
            raise SonorantError(f"{PARAMETER}: {workers} processes could not be started; see the lines above")
        yield address


def main() -> None:
    """A scheduler and so many workers on loopback."""
    os.environ.setdefault(*MEMORY_SETTING)  # read as distributed is imported
    from distributed import LocalCluster

    settings = {"host": LOOPBACK, "dashboard_address": f"{LOOPBACK}:0", "memory_limit": None, "silence_logs": "ERROR"}
    with LocalCluster(
        int(sys.argv[1]), threads_per_worker=1, preload=["sonorant.extras.cluster.task"], **settings
    ) as made:
        print(made.scheduler_address, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
