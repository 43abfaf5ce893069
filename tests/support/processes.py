"""Processes that a test started, in whatever session they are: their environment says for which folder."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import psutil

TOKEN = "SONORANT_TEST"
"""The variable that holds the folder."""


def processes_of(folder: Path, *, having: str = TOKEN, running: str = "") -> list[psutil.Process]:
    """Living ones of the folder; those with the variable `having`, those whose command has the word `running`."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            given = process.environ()
            if given.get(TOKEN) == str(folder) and having in given and running in ("", *process.cmdline()):
                found += [process] if process.status() != psutil.STATUS_ZOMBIE else []
    return found
