"""Processes started by tests, identified by a folder in their environment."""

import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

TOKEN = "SONORANT_TEST"
"""Name of the variable that holds the folder."""


def start(command: list[Any], **settings: Any) -> subprocess.Popen[Any]:
    """Start a command that obeys SIGINT, unlike a shell's background jobs."""
    return subprocess.Popen(command, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL), **settings)


def processes_of(folder: Path, *, having: str = TOKEN, running: str = "") -> list[psutil.Process]:
    """Living processes of the folder that have the variable `having`, and `running` in their command."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            given = process.environ()
            if given.get(TOKEN) == str(folder) and having in given and running in ("", *process.cmdline()):
                found += [process] if process.status() != psutil.STATUS_ZOMBIE else []
    return found
