"""A copy of the project for one run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from flows.workspace import make_workspace


def test_a_run_that_is_run_again_gets_a_new_copy_and_loses_nothing_shared(make_project: Callable[..., Path]) -> None:
    root = make_project("project")
    (root / "runs" / "checkpoint").write_text("kept")
    folder = root / "runs" / "workspaces" / "id"
    for steps in (5, 6):
        assert make_workspace(root, folder, {"train_acoustic.steps": steps}) == folder
        assert f"steps: {steps} " in (folder / "params.yaml").read_text()
        assert (folder / "runs" / "checkpoint").read_text() == "kept"
        (folder / "left.txt").write_text("from the run before")
    assert (root / "runs" / "checkpoint").read_text() == "kept"
    assert "steps: 2 " in (root / "params.yaml").read_text()
    make_workspace(root, folder, {"train_acoustic.steps": 7})
    assert not (folder / "left.txt").exists()


def test_credentials_of_a_remote_are_copied_for_their_owner_alone(make_project: Callable[..., Path]) -> None:
    root = make_project("project")
    (root / ".dvc" / "config.local").write_text("['remote \"store\"']\n    url = https://localhost/store\n    password = secret\n")
    copied = make_workspace(root, root / "runs" / "workspaces" / "id", {"train_acoustic.steps": 5}) / ".dvc" / "config.local"
    assert "secret" in copied.read_text()
    assert copied.stat().st_mode & 0o077 == 0
