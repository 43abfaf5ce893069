"""Run the project's commands in this process like `python -m`, without seconds of imports."""

import contextlib
import io
import logging
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch


def run_command(
    module: str, *words: str | Path, cwd: Path | None = None, stdin: bytes = b"", **env: str
) -> subprocess.CompletedProcess[str]:
    """Run `python -m module words` in the folder `cwd` with more environment variables.

    The standard streams are real files, because some commands write to descriptors.
    """
    command = [module, *map(str, words)]
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        given.write(stdin)
        given.seek(0)
        with _surroundings(command, cwd or Path.cwd(), env), pytest.MonkeyPatch.context() as patch:
            for name, file in (("stdin", given), ("stdout", out), ("stderr", errors)):
                patch.setattr(sys, name, io.TextIOWrapper(file, encoding="utf-8", write_through=True))
            status = _status_of(module)
            for stream in (sys.stdin, sys.stdout, sys.stderr):
                stream.detach()  # type: ignore[union-attr]
        printed = []
        for file in (out, errors):
            file.seek(0)
            printed.append(file.read().decode("utf-8", errors="surrogateescape"))
    return subprocess.CompletedProcess(command, status, *printed)


def error_line(done: subprocess.CompletedProcess[str]) -> str:
    """The error line of a failed command."""
    assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
    assert done.stderr.startswith("error: ")
    return done.stderr.removeprefix("error: ")


def _status_of(module: str) -> int:
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    return 0


@contextlib.contextmanager
def _surroundings(command: list[str], cwd: Path, env: dict[str, str]) -> Iterator[None]:
    """The environment of a new process; restored afterwards."""
    log, threads = logging.getLogger(), torch.get_num_threads()
    handlers, level = log.handlers[:], log.level
    signals = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    before = dict(os.environ)
    log.handlers[:] = []
    try:
        with (
            pytest.MonkeyPatch.context() as patch,
            contextlib.chdir(cwd),
            warnings.catch_warnings(action="ignore"),  # the module may have been imported already
        ):
            patch.setattr(sys, "argv", command)
            os.environ.update(env)
            yield
    finally:
        os.environ.clear()
        os.environ.update(before)
        log.handlers[:], log.level = handlers, level
        torch.set_num_threads(threads)
        for number, handler in signals.items():
            signal.signal(number, handler)
