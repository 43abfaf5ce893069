import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from infra.background import Background
from infra.platform.programs import juicefs
from tests.infra.test_platform_errors import one_line
from tests.support.platform import Stack
from tests.support.platform_project import MODEL
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(1200)

REMOVE = """
import boto3
from infra.platform.buckets import objects
store = boto3.client("s3")
for key, _ in list(objects(store, "dvc")):
    store.delete_object(Bucket="dvc", Key=key)
store.delete_bucket(Bucket="dvc")
found = sorted(bucket["Name"] for bucket in store.list_buckets()["Buckets"])
"""


@pytest.mark.long
def test_a_missing_bucket_is_named_and_made_by_the_command_in_the_line(stack: Stack) -> None:
    assert "dvc" not in stack.python(REMOVE)
    said = one_line(stack.module("infra.platform.check"))
    assert said == "bucket 'dvc': no such bucket; create it with: python -m infra.platform.buckets"
    stack.run("infra.platform.buckets")
    assert "bucket 'dvc' can be written" in stack.run("infra.platform.check")


@contextmanager
def full(stack: Stack) -> Iterator[None]:
    """A store that accepts no new object because of its inode quota."""
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


@pytest.mark.long
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


@pytest.mark.long
def test_what_is_lost_comes_back_from_a_backup_as_it_was(stack: Stack) -> None:
    stack.place_voice("kept")
    stack.run("tasks.register")
    before, backup = stack.registry(), str(stack.root.parent / "backup")
    assert before["versions"]
    stack.run("infra.platform.backup", "save", backup)
    assert "exists; give a new folder" in one_line(stack.module("infra.platform.backup", "save", backup))
    assert "stop the platform first: make stop" in stack.module("infra.platform.backup", "restore", backup).stderr
    stack.run("infra.platform.native", "stop")
    ports = stack.folder / "ports.json"
    kept = {f"SONORANT_{name.upper()}_PORT": str(port) for name, port in json.loads(ports.read_text()).items()}
    shutil.rmtree(stack.folder)
    restored = stack.module("infra.platform.backup", "restore", backup, **kept)
    assert restored.returncode == 0, restored.stderr
    done = stack.start()
    assert done.returncode == 0, done.stderr
    assert stack.registry() == before
    stack.run("sonorant.cli.main", "say", "It speaks.", "--voice", f"models:/{MODEL}@challenger", "-o", "again.wav")
    assert (stack.root / "again.wav").stat().st_size > 1000


SERVER = ["sh", "-c", "sleep 601 & sh -c 'sleep 602 & sleep 603' & wait"]
"""A server with a process tree that survives a killed `sh`."""


@pytest.fixture
def killed(tmp_path: Path) -> Iterator[Background]:
    """The server `tree` with its main process killed and its children still running."""
    servers = Background(tmp_path)
    servers.launch("tree", SERVER, os.environ)
    tree = servers.alive("tree")
    assert tree is not None
    wait_until(lambda: len(of_session(tree.pid)) == 5)
    tree.kill()
    tree.wait()
    assert servers.alive("tree") is None and len(of_session(tree.pid)) == 4
    yield servers
    for process in of_session(tree.pid):
        process.kill()


def of_session(number: int) -> list[psutil.Process]:
    """Living processes of a session."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if os.getsid(process.pid) == number and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def recorded(servers: Background) -> dict[str, Any]:
    return dict(json.loads((servers.folder / "tree.json").read_text()))


def test_what_a_killed_server_left_ends_by_stop_and_before_it_starts_again(killed: Background) -> None:
    former = int(recorded(killed)["pid"])
    killed.launch("tree", SERVER, os.environ)
    new = killed.alive("tree")
    try:
        assert of_session(former) == [] and new is not None
        wait_until(lambda: len(of_session(new.pid)) == 5)
        new.kill()
        killed.stop("tree")
        assert of_session(new.pid) == [] and not (killed.folder / "tree.json").exists()
    finally:
        for process in of_session(new.pid) if new else ():
            process.kill()


@pytest.mark.parametrize("changed", ["a machine that was started since", "a number that was given anew"])
def test_a_session_that_only_has_the_number_is_left_alone(killed: Background, changed: str) -> None:
    known, left = recorded(killed), of_session(int(recorded(killed)["pid"]))
    time.sleep(0.05)  # some ticks, because records contain start times in ticks
    stranger = subprocess.Popen(["sleep", "600"], start_new_session=True)
    try:
        if changed == "a number that was given anew":
            known["pid"] = stranger.pid  # started at another time than recorded
        else:
            known["begun"] = ["another", known["begun"][1]]
        (killed.folder / "tree.json").write_text(json.dumps(known))
        killed.stop("tree")
        assert stranger.poll() is None and len(left) == 4 and all(each.is_running() for each in left)
    finally:
        stranger.kill()
        stranger.wait()
