"""Run a command as part of a Prefect run: its output goes to the run's log, its failure becomes one line."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from prefect import get_run_logger

from flows.command import CommandFailed, run_command
from sonorant.errors import SonorantError

ADVICE = ("To track the changes", "git add ", "To enable auto staging", "dvc config core.autostage", "Use `dvc push`")


def run_logged(
    what: str, command: Sequence[str], where: Path, extra: Mapping[str, str], check: Callable[[], None] = lambda: None
) -> None:
    """Run `command` in the folder `where`, with `extra` in its environment and this interpreter as `python`.

    `check` is called about every second; an exception from it ends the command. Raises SonorantError naming `what` and
    the command's own last error if it fails.
    """
    logger, errors = get_run_logger(), []

    def say(line: str) -> None:
        if line.strip() and not line.strip().startswith(ADVICE):
            logger.info("%s", line)
        if line.startswith("error: "):
            errors.append(line.removeprefix("error: "))

    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    try:
        run_command(command, where, say, os.environ | {"PATH": path, "PYTHONUNBUFFERED": "1"} | dict(extra), check)
    except CommandFailed as failure:
        raise SonorantError(f"{what}: {errors[-1] if errors else failure}") from None
