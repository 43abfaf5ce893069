"""The platform is saved, its whole folder lost, and restored: the registry is as it was."""

import shutil
from pathlib import Path

import pytest

from infra.platform.backup import CONTENT, inside
from sonorant.errors import SonorantError
from tests.support.platform import Stack

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]

BACKUP = "infra.platform.backup"


def test_after_the_loss_of_everything_the_registry_is_as_it_was(stack: Stack, tmp_path: Path) -> None:
    stack.place_voice()
    stack.run("tasks.register")
    stack.run("tasks.promote")
    before, secrets = stack.registry(), stack.secrets
    saved = tmp_path / "saved"
    stack.run(BACKUP, "save", str(saved))
    assert saved.stat().st_mode & 0o077 == 0
    refused = stack.module(BACKUP, "save", str(saved))
    assert (refused.returncode, refused.stderr) == (1, f"error: {saved} exists; give a new folder\n")
    refused = stack.module(BACKUP, "restore", str(saved))
    assert refused.returncode == 1 and "end the platform first: make stop" in refused.stderr
    stack.run("infra.platform.native", "stop")
    damaged = tmp_path / "damaged"
    shutil.copytree(saved, damaged)
    (damaged / "mlflow.dump").write_bytes((damaged / "mlflow.dump").read_bytes()[:-1])
    shutil.rmtree(stack.folder)
    refused = stack.module(BACKUP, "restore", str(damaged))
    said = f"error: {damaged}: mlflow.dump is not as it was saved; nothing was restored\n"
    assert (refused.returncode, refused.stderr, stack.folder.exists()) == (1, said, False)
    stack.run(BACKUP, "restore", str(saved))
    assert stack.start().returncode == 0
    assert stack.secrets == secrets
    assert stack.registry() == before
    stack.run("tasks.register")
    assert stack.registry()["versions"].keys() == before["versions"].keys(), (
        "the equal voice is the version that it was"
    )


@pytest.mark.parametrize("key", ["../outside", "a/../../outside", "/etc/passwd"])
def test_a_key_that_leaves_its_folder_is_refused(tmp_path: Path, key: str) -> None:
    with pytest.raises(SonorantError, match="leaves its bucket's folder"):
        inside(tmp_path, key)
    assert inside(tmp_path, "1/ab..c/x") == tmp_path / "1/ab..c/x"


def test_a_folder_that_is_no_backup_is_refused(stack: Stack, tmp_path: Path) -> None:
    done = stack.module(BACKUP, "restore", str(tmp_path))
    assert done.stderr == f"error: {tmp_path} is no backup: it has no {CONTENT}\n"
