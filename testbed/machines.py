"""Several machines on one: network namespaces with addresses of their own, joined by a bridge.

All of it lives in a user namespace that ends with its processes: it needs no root where the system allows such
namespaces, and nothing of the machine's own network is touched.
"""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from sonorant.training.distributed.ranks import die_with_parent

INSIDE = "SONORANT_INSIDE_NAMESPACE"
BRIDGE = "10.77.0.1"
"""Address of the place between the machines, where this process is and a server for all of them can be."""


def why_not() -> str | None:
    """Why this system cannot make such machines; None where it can."""
    missing = [tool for tool in ("unshare", "nsenter", "taskset", "ip") if shutil.which(tool) is None]
    if missing:
        return f"the command {missing[0]} is absent"
    probe = ["unshare", "-rn", "sh", "-c", "ip link add probe0 type bridge && unshare -nu true"]
    done = subprocess.run(probe, capture_output=True, text=True)
    if done.returncode:
        return f"this system allows no network namespaces ({done.stderr.strip().splitlines()[-1]})"
    return None


def enter() -> None:
    """Start this program again inside a user and network namespace of its own; nothing where it is inside already."""
    if INSIDE not in os.environ:
        os.environ[INSIDE] = "yes"
        os.execvp("unshare", ["unshare", "-rn", sys.executable, *sys.orig_argv[1:]])


class Machine:
    """A network namespace with a name, an address and one core."""

    def __init__(self, name: str, address: str, core: int) -> None:
        self.name, self.address, self.core = name, address, core
        self._holder = subprocess.Popen(
            ["unshare", "-nu", "sh", "-c", f"hostname {name}; echo; exec sleep infinity"],
            stdout=subprocess.PIPE,
            preexec_fn=_end_with_us,
        )
        assert self._holder.stdout is not None
        self._holder.stdout.readline()
        self._namespace = self._namespace_of(self._holder.pid)
        end = f"to-{name}"
        _ip(f"link add {end} type veth peer name eth0 netns {self._holder.pid}")
        _ip(f"link set {end} master bridge0 up")
        for command in ("link set lo up", f"addr add {address}/24 dev eth0", "link set eth0 up"):
            subprocess.run([*self._inside(), "ip", *command.split()], check=True)

    def start(
        self, command: list[str], folder: Path, environment: Mapping[str, str], log: Path
    ) -> subprocess.Popen[bytes]:
        """Start a command on the machine, in `folder`, what it prints appended to `log`."""
        with log.open("ab") as output:
            return subprocess.Popen(
                [*self._inside(), "taskset", "-c", str(self.core), *command],
                cwd=folder,
                env={**environment, "PWD": str(folder)},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                preexec_fn=_end_with_us,
            )

    def run(self, *command: str, check: bool = True) -> None:
        """Run a command on it to its end. Raises CalledProcessError if it fails and `check` says so."""
        subprocess.run([*self._inside(), *command], check=check, capture_output=True)

    def processes(self) -> list[psutil.Process]:
        """All that runs on it."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error, OSError):
                here = process.pid != self._holder.pid and self._namespace_of(process.pid) == self._namespace
                if here and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return found

    def kill(self) -> None:
        """SIGKILL to all that runs on it, until nothing is left; then it can be used again."""
        while left := self.processes():
            for process in left:
                with suppress(psutil.Error):
                    process.kill()
            psutil.wait_procs(left, timeout=5)

    def remove(self) -> None:
        """End it for good."""
        self.kill()
        self._holder.kill()
        self._holder.wait()

    def _inside(self) -> list[str]:
        return ["nsenter", "-t", str(self._holder.pid), "-n", "-u", "--"]

    @staticmethod
    def _namespace_of(pid: int) -> str:
        return os.readlink(f"/proc/{pid}/ns/net")  # noqa: PTH115 - the link leads to no path


@contextmanager
def machines(*names: str) -> Iterator[list[Machine]]:
    """As many machines, each with a core of its own where there are enough; call `enter` first."""
    cores = sorted(os.sched_getaffinity(0))
    _ip("link add bridge0 type bridge")
    _ip(f"addr add {BRIDGE}/24 dev bridge0")
    for device in ("lo", "bridge0"):
        _ip(f"link set {device} up")
    made: list[Machine] = []
    try:
        for number, name in enumerate(names):
            made.append(Machine(name, f"10.77.0.{number + 2}", cores[number % len(cores)]))
        yield made
    finally:
        for machine in made:
            machine.remove()


def _end_with_us() -> None:
    die_with_parent(signal.SIGKILL)


def _ip(command: str) -> None:
    subprocess.run(["ip", *command.split()], check=True)
