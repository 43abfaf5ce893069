"""A missing bucket, a full store, a lost folder: one line each, nothing lost, nothing twice."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from infra.platform.programs import juicefs
from tests.infra.test_platform_errors import one_line
from tests.support.platform import MODEL, Stack
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]

REMOVE = """
import boto3
from infra.platform.buckets import objects
store = boto3.client("s3")
for key, _ in list(objects(store, "{bucket}")):
    store.delete_object(Bucket="{bucket}", Key=key)
store.delete_bucket(Bucket="{bucket}")
found = sorted(bucket["Name"] for bucket in store.list_buckets()["Buckets"])
"""


def test_a_bucket_that_is_not_there_is_named_and_made_by_the_command_that_the_line_gives(stack: Stack) -> None:
    assert "dvc" not in stack.python(REMOVE.format(bucket="dvc"))
    said = one_line(stack.module("infra.platform.check"))
    assert said == "bucket 'dvc': there is no such bucket; make it: python -m infra.platform.buckets"
    stack.run("infra.platform.buckets")
    assert "bucket 'dvc' can be written" in stack.run("infra.platform.check")


@contextmanager
def full(stack: Stack) -> Iterator[None]:
    """The store takes no new object: it has as many inodes as its quota allows."""
    volume = f"sqlite3://{stack.folder}/s3/volume.db"

    def limit(inodes: int) -> None:
        command = [juicefs(), "config", volume, "--inodes", str(inodes), "--yes"]
        subprocess.run(command, check=True, capture_output=True)

    def refused() -> bool:
        return stack.module("infra.platform.check").returncode == 1

    limit(1)
    try:
        wait_until(refused, patience=120, pause=2)  # the gateway reads its settings every few seconds
        yield
    finally:
        limit(0)
        wait_until(lambda: not refused(), patience=120, pause=2)


def test_a_full_store_refuses_a_version_in_one_line_and_the_same_command_registers_it_once_there_is_room(
    stack: Stack,
) -> None:
    stack.place_voice("full")
    before = stack.registry()
    with full(stack):
        lines = stack.module("infra.platform.check").stderr.strip().splitlines()
        assert [line.split(": ")[1] for line in lines] == ["bucket 'mlflow'", "bucket 'dvc'"]
        assert all("disk or quota is full" in line for line in lines)
        assert "MLflow" in one_line(stack.module("tasks.register"))
        assert stack.registry() == before, "a version without its files"
    stack.run("tasks.register")
    after = stack.registry()
    [new] = after["versions"].keys() - before["versions"].keys()
    assert any(name.endswith("voice.json") for name, _ in after["versions"][new]["files"])
    stack.run("tasks.register")
    assert stack.registry() == after, "the same voice is one version"


def test_what_is_lost_comes_back_from_a_backup_as_it_was(stack: Stack) -> None:
    stack.place_voice("kept")
    stack.run("tasks.register")
    before, backup = stack.registry(), str(stack.root.parent / "backup")
    assert before["versions"]
    stack.run("infra.platform.backup", "save", backup)
    assert "exists; give a new folder" in one_line(stack.module("infra.platform.backup", "save", backup))
    assert "end the platform first: make stop" in stack.module("infra.platform.backup", "restore", backup).stderr
    stack.run("infra.platform.native", "stop")
    ports = stack.folder / "ports.json"
    kept = {f"SONORANT_{name.upper()}_PORT": str(port) for name, port in json.loads(ports.read_text()).items()}
    shutil.rmtree(stack.folder)
    restored = stack.module("infra.platform.backup", "restore", backup, **kept)
    assert restored.returncode == 0, restored.stderr
    done = stack.start()
    assert done.returncode == 0, done.stderr
    assert stack.registry() == before
    stack.run("sonorant.cli", "say", "It speaks.", "--voice", f"models:/{MODEL}@challenger", "-o", "again.wav")
    assert (stack.root / "again.wav").stat().st_size > 1000
