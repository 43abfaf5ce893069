"""The commands `sonorant scheduler` and `sonorant worker`, on top of Dask's own."""

import argparse
import ipaddress
import os
import sys

from sonorant.errors import SonorantError
from sonorant.extras.cluster.address import EXAMPLE, checked_address, require_dask
from sonorant.processes import SCHEDULER, usable_cores

SCHEDULER_EXAMPLES = """\
examples:
  sonorant scheduler                                 this machine alone may connect
  sonorant scheduler --host 10.0.0.1                 so may everyone who reaches that address: mind who can
  sonorant scheduler --host 10.0.0.1 --tls           those with a certificate (Dask's settings distributed.comm.tls)
"""
WORKER_EXAMPLES = f"""\
examples:
  sonorant worker tcp://127.0.0.1:8786               a process for each core, one thread each
  sonorant worker {EXAMPLE} --processes 8       fewer

Run it in any folder of a machine that sees the project's folder under the same path. It ends with its scheduler.
"""
LOST_SECONDS = 60
"""A worker exits after this long without its scheduler."""
MEMORY_SETTING = "DASK_DISTRIBUTED__NANNY__PRE_SPAWN_ENVIRON", "{'MALLOC_TRIM_THRESHOLD_': None}"
"""Unset Dask's malloc trimming, which took a quarter of the CPU time of `prepare`."""


def add_scheduler(commands: argparse._SubParsersAction) -> None:
    scheduler = commands.add_parser(
        "scheduler",
        help="the place where workers of several machines meet to prepare a corpus",
        description="Run Dask's scheduler. Whoever can connect to it can run code on its workers.",
        epilog=SCHEDULER_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = scheduler.add_argument
    add("--host", default="127.0.0.1", metavar="ADDRESS", help="address to listen on; default 127.0.0.1")
    add("--port", type=int, default=8786, metavar="N", help="default 8786; 0 takes any that is free")
    add("--dashboard-port", type=int, default=8787, metavar="N", help="of the page that shows its work; default 8787")
    add("--tls", action="store_true", help="encrypt, and ask for certificates: Dask's settings distributed.comm.tls")
    scheduler.set_defaults(run=_run_scheduler)


def add_worker(commands: argparse._SubParsersAction) -> None:
    worker = commands.add_parser(
        "worker",
        help="lend this machine's cores to a scheduler",
        description="Run Dask's workers: a process for each core, one thread each, until the scheduler ends.",
        epilog=WORKER_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    worker.add_argument("scheduler", metavar="ADDRESS", help=f"of the scheduler, such as {EXAMPLE}")
    worker.add_argument("--processes", type=int, metavar="N", help="default: one for each core")
    worker.set_defaults(run=_run_worker)


def scheduler_command(host: str, port: int, dashboard_port: int, tls: bool) -> list[str]:
    """Command line of a scheduler."""
    listen = ["--host", host, "--port", str(port), "--dashboard-address", f"{host}:{dashboard_port}"]
    return [sys.executable, "-m", "dask", "scheduler", *listen, *(["--protocol", "tls"] if tls else [])]


def worker_command(address: str, processes: int) -> list[str]:
    """Command line of workers. One thread per process, because models and initialisers are process-wide. No memory
    limit: Dask would kill a process above its share even with memory free. The preloaded module records the code
    version at start."""
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
        who = "whoever reaches it can run code here and on its workers"
        print(f"warning: listening on {arguments.host} without --tls: {who}", file=sys.stderr, flush=True)
    _become(scheduler_command(arguments.host, arguments.port, arguments.dashboard_port, arguments.tls))


def _run_worker(arguments: argparse.Namespace) -> None:
    address, processes = checked_address(arguments.scheduler, "sonorant worker"), arguments.processes or usable_cores()
    if processes < 1:
        raise SonorantError(f"--processes is {processes}; give at least 1")
    os.environ.setdefault(*MEMORY_SETTING)
    _become(worker_command(address, processes))


def _become(command: list[str]) -> None:
    """Replace this process, so that signals reach Dask."""
    os.environ.pop(SCHEDULER, None)  # a worker does not use a cluster itself
    os.execv(command[0], command)


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
