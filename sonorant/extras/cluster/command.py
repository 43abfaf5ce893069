"""Commands `sonorant scheduler` and `sonorant worker`, which start Dask's programs."""

import argparse
import ipaddress
import os
import sys

from sonorant.errors import SonorantError
from sonorant.extras.cluster.address import EXAMPLE, checked_address, require_dask
from sonorant.processes import SCHEDULER, at_most_cores, usable_cores

SCHEDULER_EXAMPLES = """\
examples:
  sonorant scheduler                                 accept connections from this machine only
  sonorant scheduler --host 10.0.0.1                 accept connections from anyone who can reach this address
  sonorant scheduler --host 10.0.0.1 --tls           require a certificate (Dask's settings distributed.comm.tls)
"""
WORKER_EXAMPLES = f"""\
examples:
  sonorant worker tcp://127.0.0.1:8786               one single-threaded process per core
  sonorant worker {EXAMPLE} --processes 8  8 processes

Run it in any folder, on a machine that has the project folder under the same path. It exits when its scheduler exits.
"""
LOST_SECONDS = 60
"""Seconds without a scheduler after which a worker exits."""
MEMORY_SETTING = "DASK_DISTRIBUTED__NANNY__PRE_SPAWN_ENVIRON", "{'MALLOC_TRIM_THRESHOLD_': None}"
"""Environment variable that disables Dask's malloc trimming, which would take a quarter of the CPU time of
`prepare`."""


def add_scheduler(commands: argparse._SubParsersAction) -> None:
    scheduler = commands.add_parser(
        "scheduler",
        help="run the scheduler that workers on several machines connect to",
        description="Run Dask's scheduler. Anyone who can connect to it can run code on its workers.",
        epilog=SCHEDULER_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = scheduler.add_argument
    add("--host", default="127.0.0.1", metavar="ADDRESS", help="address to listen on; default 127.0.0.1")
    add("--port", type=int, default=8786, metavar="N", help="port to listen on; default 8786; 0 uses any free port")
    add("--dashboard-port", type=int, default=8787, metavar="N", help="port of Dask's dashboard; default 8787")
    add("--tls", action="store_true", help="encrypt and require certificates (Dask's settings distributed.comm.tls)")
    scheduler.set_defaults(run=_run_scheduler)


def add_worker(commands: argparse._SubParsersAction) -> None:
    worker = commands.add_parser(
        "worker",
        help="run tasks of a scheduler on this machine's cores",
        description="Run Dask workers until the scheduler exits, by default one single-threaded process per core.",
        epilog=WORKER_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    worker.add_argument("scheduler", metavar="ADDRESS", help=f"address of the scheduler, such as {EXAMPLE}")
    worker.add_argument(
        "--processes", type=int, metavar="N", help="number of worker processes, at most one per core (the default)"
    )
    worker.set_defaults(run=_run_worker)


def scheduler_command(host: str, port: int, dashboard_port: int, tls: bool) -> list[str]:
    listen = ["--host", host, "--port", str(port), "--dashboard-address", f"{host}:{dashboard_port}"]
    return [sys.executable, "-m", "dask", "scheduler", *listen, *(["--protocol", "tls"] if tls else [])]


def worker_command(address: str, processes: int) -> list[str]:
    """Return the command line that starts workers. They have one thread, because models and initialisers are
    process-wide, and no memory limit, because Dask would kill a process above its share even if memory is free. The
    preloaded module records the code version at start."""
    settings = {
        "--nworkers": processes,
        "--nthreads": 1,
        "--memory-limit": 0,
        "--death-timeout": LOST_SECONDS,
        "--preload": "sonorant.extras.cluster.task",
    }
    words = [str(word) for setting in settings.items() for word in setting]
    return [sys.executable, "-m", "dask", "worker", address, *words, "--no-dashboard"]


def _run_scheduler(arguments: argparse.Namespace) -> None:
    require_dask("sonorant scheduler")
    if not arguments.tls and not _loopback(arguments.host):
        who = "anyone who can reach it can run code here and on its workers"
        print(f"warning: listening on {arguments.host} without --tls: {who}", file=sys.stderr, flush=True)
    _become(scheduler_command(arguments.host, arguments.port, arguments.dashboard_port, arguments.tls))


def _run_worker(arguments: argparse.Namespace) -> None:
    address = checked_address(arguments.scheduler, "sonorant worker")
    processes = at_most_cores(arguments.processes, "--processes") or usable_cores()
    if processes < 1:
        raise SonorantError(f"--processes must be at least 1, not {processes}")
    os.environ.setdefault(*MEMORY_SETTING)
    _become(worker_command(address, processes))


def _become(command: list[str]) -> None:
    """Replace this process with `command`, so that signals reach Dask."""
    os.environ.pop(SCHEDULER, None)  # a worker does not use a cluster itself
    os.execv(command[0], command)


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
