"""Every command that writes, in a folder where nothing can be written."""

import ctypes
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from sonorant.cli.main import _parser
from tests.support.command import error_line, run_command
from tests.support.imports import ROOT

WRITERS = dict(line.split("\t") for line in (ROOT / "tests/commands.tsv").read_text().splitlines())
READERS = {"params", "plan", "doctor", "scheduler", "worker", "export-page"}
"""Commands that write nothing, or need npm."""


@pytest.fixture
def closed(tmp_path: Path) -> Iterator[Path]:
    """A project that cannot be written, with a training that cannot be read, even by root."""
    for name in ("dvc.yaml", "params.yaml", "tasks", "flows", "corpora"):
        (tmp_path / name).symlink_to(ROOT / name)
    for name in (".dvc", "sounds", "runs"):
        (tmp_path / name).mkdir()
    (tmp_path / "runs/lock").touch(mode=0)
    for folder in (tmp_path, *tmp_path.glob("[.sr]*/")):
        folder.chmod(0o555)
    libc, header = ctypes.CDLL(None), struct.pack("II", 0x20080522, 0)  # the version of Linux's capabilities
    libc.capget(header, before := ctypes.create_string_buffer(24))
    libc.capset(header, bytes([before.raw[0] & ~0b1110]) + before.raw[1:])  # no rights over files of others
    yield tmp_path
    libc.capset(header, before)


def test_every_command_is_listed() -> None:
    [commands] = [action.choices for action in _parser(["?"])._actions if isinstance(action.choices, dict)]
    assert {name for name in WRITERS if " " not in name} == set(commands) - READERS


@pytest.mark.parametrize("command", WRITERS.values())
def test_a_folder_that_cannot_be_written_is_one_line(command: str, closed: Path, voice_bundle: Path) -> None:
    words = command.replace("BUNDLE", str(voice_bundle)).split()
    env = {"MLFLOW_TRACKING_URI": "", "PREFECT_HOME": str(closed / "runs/prefect")}
    assert error_line(run_command(*words, cwd=closed, **env))
