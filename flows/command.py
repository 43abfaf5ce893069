"""Run a command in a Prefect run, log its output, and stop all its processes when it finishes."""

import logging
import os
import re
import secrets
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import psutil
from prefect import get_run_logger
from prefect.states import Failed, State

from sonorant.errors import SonorantError
from sonorant.processes import UNDER

TOKEN = UNDER  # in the environment of all descendants, even those in other sessions (torchrun's workers)
GRACE = 25.0  # seconds to save and stop; Prefect's worker kills the flow after 30
ADVICE = ("To track the changes", "git add ", "To enable auto staging", "dvc config core.autostage", "Use `dvc push`")
"""Prefixes of DVC's hints, which are left out of the log."""


def failed(error: SonorantError) -> State[Any]:
    """Log the error as one line and return a failed state, without the engine's traceback."""
    get_run_logger().error("%s", error)
    return Failed(message=str(error))


class CommandFailed(SonorantError):
    """The command exited with a status other than 0."""


def run_logged(
    what: str, command: Sequence[str], where: Path, extra: Mapping[str, str], check: Callable[[], None] = lambda: None
) -> None:
    """Run `command` in the folder `where`, with `extra` in its environment and this interpreter as `python`.

    `check` is called about every second; its exceptions stop the command. If the command fails, raises SonorantError
    with `what` and the command's last error.
    """
    logger, errors = get_run_logger(), []

    def say(line: str) -> None:
        if not line.strip().startswith(ADVICE):
            logger.info("%s", line)
        if line.startswith("error: "):
            errors.append(line.removeprefix("error: "))

    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    try:
        run_command(command, where, say, os.environ | {"PATH": path, "PYTHONUNBUFFERED": "1"} | dict(extra), check)
    except CommandFailed as failure:
        raise SonorantError(f"{what}: {errors[-1] if errors else failure}") from None
    except KeyboardInterrupt:
        logging.disable(logging.ERROR)  # Prefect's lines about a crash
        raise


def run_command(
    command: Sequence[str],
    cwd: Path,
    say: Callable[[str], None],
    environment: Mapping[str, str],
    check: Callable[[], None] = lambda: None,
) -> None:
    """Run `command` in a new session and pass each line of output to `say`.

    Call in the main thread. If a signal handler or `check` raises, the command's processes get SIGINT, and SIGKILL
    after `GRACE` seconds. Raises CommandFailed for a status other than 0.
    """
    token = secrets.token_hex(8)
    process = subprocess.Popen(
        command,
        cwd=cwd,
        env={**environment, TOKEN: token},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),  # ignored by a shell's background jobs
    )
    try:
        last = ""
        for last in _lines(process, check):
            say(last)
        status = process.wait()
        if status != 0:
            raise CommandFailed(f"'{' '.join(command)}' exited with status {status}; its last line: {last or '(none)'}")
    except BaseException:
        end_group(process, token)
        for line in _lines(process, lambda: None):  # such as the step at which a training saved
            if not line.startswith(("ERROR: ", "error: ")):
                say(line)
        raise
    finally:
        assert process.stdout is not None
        process.stdout.close()


def end_group(process: subprocess.Popen[bytes], token: str) -> None:
    """Stop all processes of the command: SIGINT to the group (on SIGTERM, DVC keeps its locks), SIGKILL to those left
    after `GRACE` seconds."""
    with _signals_held():
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGINT)
        deadline = time.monotonic() + GRACE
        while (left := members(token)) and time.monotonic() < deadline:
            process.poll()
            time.sleep(0.1)
        while left:
            for member in left:
                with suppress(psutil.Error):
                    member.kill()
            psutil.wait_procs(left, timeout=5)
            left = members(token)
        process.wait()


def members(token: str) -> list[psutil.Process]:
    """Return all running processes whose environment contains `token`: the command and its descendants."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.status() != psutil.STATUS_ZOMBIE and process.environ().get(TOKEN) == token:
                found.append(process)
    return found


@contextmanager
def _signals_held() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _lines(process: subprocess.Popen[bytes], check: Callable[[], None]) -> Iterator[str]:
    """Yield the lines and progress bar updates of the command until it exits, even if a descendant keeps the pipe
    open."""
    assert process.stdout is not None
    descriptor, text = process.stdout.fileno(), b""
    while True:
        check()
        ready, _, _ = select.select([descriptor], [], [], 0.5)
        data = os.read(descriptor, 65536) if ready else b""
        if not data and (ready or process.poll() is not None):
            break
        *whole, text = re.split(rb"[\r\n]+", text + data)
        yield from (line.decode("utf-8", "replace").rstrip() for line in whole if line.strip())
    if text.strip():
        yield text.decode("utf-8", "replace").rstrip()
