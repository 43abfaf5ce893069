"""Servers that outlive the command that starts them: started, waited for, found again and ended.

Knows nothing of what they serve.
"""

from __future__ import annotations

import os
import shlex
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from sonorant.errors import SonorantError
from sonorant.files import read_json, write_json

BOOT = Path("/proc/sys/kernel/random/boot_id")
START_SECONDS, STOP_SECONDS = 400.0, 35.0
"""A first start makes tables for a minute, and longer beside other work."""


@dataclass(frozen=True)
class Background:
    """Servers whose process ids and logs lie in one folder."""

    folder: Path
    """Holds `<name>.json`, which process a server is, and `<name>.log`, what it printed."""

    def launch(self, name: str, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """Start a server that outlives this process; its output goes to its log. What a killed one left ends first: it
        would hold the port and answer in the new one's place."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.end_orphans(name)
        print(f"starting {name}", file=sys.stderr)
        with (self.folder / f"{name}.log").open("w") as log:
            child = subprocess.Popen(
                command,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        boot, begun = begin_of(child.pid)
        write_json(self.folder / f"{name}.json", {"pid": child.pid, "boot": boot, "begun": begun})

    def alive(self, name: str) -> psutil.Process | None:
        """The server's process if it runs; a process of the same pid that started at another time is not it."""
        file = self.folder / f"{name}.json"
        if not file.exists():
            return None
        known = read_json(file)
        with suppress(psutil.Error):
            process = psutil.Process(known["pid"])
            if begin_of(process.pid) == recorded(known) and process.status() != psutil.STATUS_ZOMBIE:
                return process
        return None

    def wait_for(self, name: str, ready: Callable[[], bool], pause: float = 0.3) -> None:
        """Ask every `pause` seconds. Raises SonorantError if the server ends or is not ready in time."""
        deadline = time.monotonic() + START_SECONDS
        while not ready():
            if self.alive(name) is None or time.monotonic() > deadline:
                log = self.folder / f"{name}.log"
                raise SonorantError(f"{name} did not start; {log} ends: {last_line(log.read_text(errors='replace'))}")
            time.sleep(pause)

    def stop(self, name: str, stop_signal: signal.Signals = signal.SIGTERM) -> None:
        """End the server with all that runs in it, also if the server itself was killed, and nothing else: a pid that
        now is another process's is left alone."""
        process = self.alive(name)
        if process is not None:
            print(f"stopping {name}", file=sys.stderr)
            end(process, stop_signal)
        self.end_orphans(name)
        (self.folder / f"{name}.json").unlink(missing_ok=True)

    def end_orphans(self, name: str) -> None:
        """End what a server that was killed has left running."""
        left = self.orphans(name)
        if left:
            print(f"ending {len(left)} processes that {name} left", file=sys.stderr)
            signal_and_wait(left, left, signal.SIGTERM)

    def orphans(self, name: str) -> list[psutil.Process]:
        """Processes in the session that `launch` made for a server which is dead; the session's number is its pid.

        While one of them lives, the system gives that number to no other process. So where a process has it, they all
        had ended, and the session is a stranger's; as it is where numbers began anew since (the machine's or the
        container's first process is younger than the record).
        """
        file = self.folder / f"{name}.json"
        known = read_json(file) if file.exists() else None
        if known is None or self.alive(name) or taken_by_another(known):
            return []
        boot, begun = recorded(known)
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error, OSError):
                its_boot, its_begin = begin_of(process.pid)
                ours = os.getsid(process.pid) == known["pid"] and its_boot == boot and its_begin >= begun
                # root's servers may have become another user, as PostgreSQL does
                ours = ours and os.geteuid() in (0, process.uids().real)
                if ours and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return found


def begin_of(pid: int) -> tuple[str, float]:
    """The machine's boot that a process is of, and when in it the process began, in ticks: the clock may be set, and
    with it the time that psutil tells. Where a system has no such file: empty, and that time. Raises psutil.Error if
    there is no such process."""
    if not BOOT.exists():
        return "", psutil.Process(pid).create_time()
    try:
        after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        raise psutil.NoSuchProcess(pid) from None
    return BOOT.read_text().strip(), float(after_name[19])  # field 22 of proc_pid_stat(5), the third is the first here


def recorded(known: Mapping[str, Any]) -> tuple[str, float]:
    """`begin_of` the server, as it was when it was launched."""
    return str(known.get("boot")), float(known.get("begun", 0.0))


def taken_by_another(known: Mapping[str, Any]) -> bool:
    """Whether a server's number may be another process's by now; True if that cannot be known."""
    pid, (boot, begun) = known["pid"], recorded(known)
    with suppress(psutil.Error):
        other = psutil.pid_exists(pid) and begin_of(pid) != (boot, begun)
        first_boot, first_begun = begin_of(1)
        return bool(other or first_boot != boot or first_begun > begun)
    return True


def end(process: psutil.Process, stop_signal: signal.Signals = signal.SIGTERM) -> None:
    """Signal a server, with SIGTERM its children too; a flow among them needs time to end its stage. SIGKILL to what is
    left."""
    descendants = process.children(recursive=True)
    children = process.children() if stop_signal == signal.SIGTERM else []
    signal_and_wait([process, *children], [process, *descendants], stop_signal)


def signal_and_wait(
    signalled: Sequence[psutil.Process], awaited: Sequence[psutil.Process], stop_signal: signal.Signals
) -> None:
    """Signal some processes; SIGKILL to what is left of all after STOP_SECONDS."""
    for each in signalled:
        with suppress(psutil.Error):
            each.send_signal(stop_signal)
    _, left = psutil.wait_procs(awaited, timeout=STOP_SECONDS)
    for each in left:
        with suppress(psutil.Error):
            each.kill()
    psutil.wait_procs(left, timeout=5)


def call(command: Sequence[str], environment: Mapping[str, str]) -> None:
    """Run a client command. Raises SonorantError with its last line if it fails."""
    done = subprocess.run(
        command, env=dict(environment), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        shown = command[2:] if list(command[:2]) == [sys.executable, "-m"] else command
        raise SonorantError(f"{shlex.join(shown)} failed: {last_line(done.stdout + done.stderr)}")


def last_line(text: str) -> str:
    """The last line that is not blank; nothing where there is none."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")


def answers(url: str) -> bool:
    """Whether a GET of the address succeeds."""
    try:
        with urllib.request.urlopen(url, timeout=5) as reply:
            return bool(reply.status == 200)
    except OSError:
        return False


def port_from_environment(variable: str, default: int) -> int:
    """Raises SonorantError for what is no port."""
    text = os.environ.get(variable) or str(default)
    if not text.isdecimal() or not 0 < int(text) < 65536:
        raise SonorantError(f"{variable}: '{text}' is no port; give a number from 1 to 65535")
    return int(text)


def check_free(port: int, variable: str, command: str) -> None:
    """Raises SonorantError naming the port of loopback that something else uses, and the variable that moves it."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            raise SonorantError(f"port {port} is in use; choose another: {variable}=<port> {command}") from None
