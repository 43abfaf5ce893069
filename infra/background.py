"""Servers that outlive the command that starts them: start, await, find and stop them."""

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
"""Maximum seconds to start or stop a server. A first start creates tables for a minute."""


@dataclass(frozen=True)
class Background:
    """Servers whose process ids (`<name>.json`) and output (`<name>.log`) are in a folder."""

    folder: Path

    def launch(self, name: str, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """Start a server that outlives this process. First end any processes of a killed one, which would occupy the
        port."""
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
        write_json(self.folder / f"{name}.json", {"pid": child.pid, "begun": begin_of(child.pid)})

    def alive(self, name: str) -> psutil.Process | None:
        """Return the server's process if it is running, identified by pid and start time."""
        known = self._known(name)
        if known is None:
            return None
        with suppress(psutil.Error):
            process = psutil.Process(known["pid"])
            if begin_of(process.pid) == known["begun"] and process.status() != psutil.STATUS_ZOMBIE:
                return process
        return None

    def wait_for(self, name: str, ready: Callable[[], bool], pause: float = 0.3) -> None:
        """Poll `ready` every `pause` seconds. Raises SonorantError if the server exits or is not ready in time."""
        deadline = time.monotonic() + START_SECONDS
        while not ready():
            if self.alive(name) is None or time.monotonic() > deadline:
                log = self.folder / f"{name}.log"
                raise SonorantError(
                    f"{name} did not start; see {log}, which ends with: {last_line(log.read_text(errors='replace'))}"
                )
            time.sleep(pause)

    def stop(self, name: str, stop_signal: signal.Signals = signal.SIGTERM) -> None:
        """Stop the server and its descendants, including those left by a killed server."""
        process = self.alive(name)
        if process is not None:
            print(f"stopping {name}", file=sys.stderr)
            # A flow among the children needs time to stop its stage.
            children = process.children() if stop_signal == signal.SIGTERM else []
            _end([process, *children], [process, *process.children(recursive=True)], stop_signal)
        self.end_orphans(name)
        (self.folder / f"{name}.json").unlink(missing_ok=True)

    def end_orphans(self, name: str) -> None:
        left = self._orphans(name)
        if left:
            print(f"ending {len(left)} processes left by {name}", file=sys.stderr)
            _end(left, left, signal.SIGTERM)

    def _orphans(self, name: str) -> list[psutil.Process]:
        """Return the processes left by a dead server: those in the session that `launch` created, whose id is the
        server's pid.

        While one of them runs, no new process can get that pid. So none is left if a different process has it, or if
        the machine or container (process 1) started after the server.
        """
        known, first = self._known(name), begin_of(1)
        if known is None or first is None or self.alive(name):
            return []
        boot, ticks = known["begun"]
        if first[0] != boot or first[1] > ticks or begin_of(known["pid"]) not in (None, known["begun"]):
            return []
        return [process for process in psutil.process_iter() if _in_session(process, known["pid"])]

    def _known(self, name: str) -> dict[str, Any] | None:
        file = self.folder / f"{name}.json"
        return dict(read_json(file)) if file.exists() else None


def begin_of(pid: int) -> list[Any] | None:
    """Return a process's boot id and start in ticks since boot, which clock changes do not affect; None if there is no
    such process."""
    try:
        after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return [BOOT.read_text().strip(), int(after_name[19])]  # field 22 of proc_pid_stat(5); the list begins with field 3


def _in_session(process: psutil.Process, number: int) -> bool:
    with suppress(psutil.Error, OSError):
        return os.getsid(process.pid) == number and process.status() != psutil.STATUS_ZOMBIE
    return False


def _end(signalled: Sequence[psutil.Process], awaited: Sequence[psutil.Process], stop_signal: signal.Signals) -> None:
    """Signal processes; kill those of `awaited` that still run after STOP_SECONDS."""
    for each in signalled:
        with suppress(psutil.Error):
            each.send_signal(stop_signal)
    _, left = psutil.wait_procs(awaited, timeout=STOP_SECONDS)
    for each in left:
        with suppress(psutil.Error):
            each.kill()
    psutil.wait_procs(left, timeout=5)


def call(command: Sequence[str], environment: Mapping[str, str]) -> None:
    """Run a client command. If it fails, raises SonorantError with its last line of output."""
    done = subprocess.run(
        command, env=dict(environment), stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        shown = command[2:] if list(command[:2]) == [sys.executable, "-m"] else command
        raise SonorantError(f"{shlex.join(shown)} failed: {last_line(done.stdout + done.stderr)}")


def last_line(text: str) -> str:
    return (text.strip().splitlines() or [""])[-1].strip()


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as reply:
            return bool(reply.status == 200)
    except OSError:
        return False


def port_from_environment(variable: str, default: int) -> int:
    """Read a port from an environment variable. Raises SonorantError if it is not a port number."""
    text = os.environ.get(variable) or str(default)
    if not text.isdecimal() or not 0 < int(text) < 65536:
        raise SonorantError(f"{variable}: '{text}' is not a port; give a number from 1 to 65535")
    return int(text)


def check_free(port: int, variable: str, command: str) -> None:
    """Raise SonorantError if a loopback port is in use, naming the variable that changes it."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            raise SonorantError(f"port {port} is in use; choose another: {variable}=<port> {command}") from None
