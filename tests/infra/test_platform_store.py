"""The store of a platform of its own: a disk that is full, and the bucket of MLflow's files gone."""

import errno
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.infra.test_platform_errors import one_line
from tests.infra.test_platform_faults import REMOVE
from tests.support.platform import ON_THE_FULL_STACK, Stack, platform, why_not

pytestmark = ON_THE_FULL_STACK
MEGABYTES = 200
"""Room for a few small voices and JuiceFS's own files."""


@contextmanager
def small_disk() -> Iterator[Path]:
    """A folder on a disk of its own; a plain one where nobody may mount any."""
    with tempfile.TemporaryDirectory(prefix="sonorant-disk-") as name:
        mount = ["mount", "-t", "tmpfs", "-o", f"size={MEGABYTES}m", "tmpfs", name]
        mounted = shutil.which("mount") and subprocess.run(mount, capture_output=True, check=False).returncode == 0
        try:
            yield Path(name)
        finally:
            if mounted:
                subprocess.run(["umount", name], check=True)


@pytest.fixture(scope="module")
def disk() -> Iterator[Path]:
    with small_disk() as folder:
        yield folder


@pytest.fixture(scope="module")
def stack(voice_bundle: Path, disk: Path) -> Iterator[Stack]:
    """A platform whose S3 server keeps its files on the small disk."""
    if why := why_not():
        pytest.skip(why)
    with platform(voice_bundle, disk) as found:
        yield found


def fill(file: Path) -> None:
    """Take all the room that is left on the file's disk."""
    with file.open("wb", buffering=0) as ballast:
        for size in (2**20, 2**12, 1):
            try:
                while True:
                    ballast.write(bytes(size))
            except OSError as error:
                assert error.errno == errno.ENOSPC


def test_a_full_disk_refuses_a_version_in_one_line_and_the_same_command_registers_it_once_there_is_room(
    stack: Stack, disk: Path
) -> None:
    if not os.path.ismount(disk):
        pytest.skip("not run: a small disk cannot be mounted here, which wants root")
    stack.place_voice("first")
    stack.run("tasks.register")
    stack.place_voice("second")
    before = stack.registry()
    fill(disk / "ballast")
    try:
        lines = stack.module("infra.platform.check").stderr.strip().splitlines()
        assert [line.split(": ")[1] for line in lines] == ["bucket 'mlflow'", "bucket 'dvc'"]
        assert [line for line in lines if "disk or quota is full" not in line] == []
        assert "MLflow" in one_line(stack.module("tasks.register"))
        assert stack.registry() == before, "a version without its files"
    finally:
        (disk / "ballast").unlink()
    assert "bucket 'mlflow' can be written" in stack.run("infra.platform.check")
    stack.run("tasks.register")
    after = stack.registry()
    [new] = after["versions"].keys() - before["versions"].keys()
    assert any(name.endswith("voice.json") for name, _ in after["versions"][new]["files"])
    assert {name: version for name, version in after["versions"].items() if name != new} == before["versions"]


def test_registering_without_the_bucket_of_files_is_one_line_and_works_once_it_is_there_again(stack: Stack) -> None:
    stack.place_voice("without its bucket")
    versions = "found = [each.version for each in __import__('mlflow').MlflowClient().search_model_versions()]"
    before = stack.python(versions)
    assert "mlflow" not in stack.python(REMOVE.format(bucket="mlflow"))
    said = one_line(stack.module("tasks.register"))
    assert "MLflow" in said
    assert stack.python(versions) == before, "a version without its files"
    stack.run("infra.platform.buckets")
    assert ": registered" in stack.run("tasks.register")
    assert len(stack.python(versions)) == len(before) + 1
