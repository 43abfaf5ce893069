"""Files of the project in which a function runs, in this process and those that it starts."""

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from tests.support.imports import ROOT

FOLDERS = tuple(str(ROOT / name) + "/" for name in ("sonorant", "tasks", "flows"))
START = "from tests.support.journey import trace_from_the_start\ntrace_from_the_start()\n"
LOG = "SONORANT_TEST_JOURNEY"
"""Environment variable with the file to which names are appended. A process traces while `<file>.on` exists."""


class Journey:
    """A trace: `environment` for processes to start, and the files seen while it was `on`."""

    def __init__(self, folder: Path) -> None:
        self._log = folder / "journey"
        self._log.touch()
        (folder / "sitecustomize.py").write_text(START, encoding="utf-8")
        self.environment = {"PYTHONPATH": f"{folder}{os.pathsep}{ROOT}", LOG: str(self._log)}

    @contextmanager
    def on(self) -> Iterator[None]:
        """Trace this thread, threads that it starts, and processes that run in `environment`."""
        mark = self._log.with_suffix(".on")
        mark.touch()
        hook = _hook(self._log)
        threading.setprofile(hook)
        sys.setprofile(hook)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
            mark.unlink()

    @property
    def files(self) -> set[str]:
        """Paths relative to the project, without those of templates."""
        lines = self._log.read_text(encoding="utf-8").splitlines()
        return {str(Path(line).relative_to(ROOT)) for line in lines if line.endswith(".py")}


def trace_from_the_start() -> None:
    """Called by `sitecustomize` in a process that inherits the environment."""
    if LOG in os.environ:
        hook = _hook(Path(os.environ[LOG]))
        threading.setprofile(hook)
        sys.setprofile(hook)


def _hook(log: Path) -> Any:
    seen: set[str] = set()
    mark = log.with_suffix(".on")

    def hook(frame: FrameType, event: str, _: Any) -> None:
        file = frame.f_code.co_filename
        new = event == "call" and file.startswith(FOLDERS) and file not in seen
        if new and frame.f_code.co_name != "<module>" and mark.exists():
            seen.add(file)
            with log.open("a", encoding="utf-8") as out:
                out.write(f"{file}\n")

    return hook
