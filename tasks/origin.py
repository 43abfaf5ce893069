"""Origin of a run: commit, data, settings, hashes of files."""

import logging
import os
import subprocess
from collections.abc import Collection
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from sonorant.files import sha256_file

_log = logging.getLogger(__name__)
DATA = "data/corpus"
"""Folder of the recordings, an output in dvc.yaml."""


def origin_tags(root: Path = Path()) -> dict[str, str]:
    """Return the known tags of the project `root`: `git_commit`, `git_dirty` (except dvc.lock, which the pipeline
    writes), `dvc_lock` (SHA-256), `data` (DVC's hash of the corpus)."""
    tags: dict[str, str] = {}
    commit = _git(root, "rev-parse", "HEAD")
    if commit is not None:
        changes = _git(root, "status", "--porcelain", "--untracked-files=no", "--", ":/", ":(top,exclude)dvc.lock")
        tags |= {"git_commit": commit, "git_dirty": str(bool(changes)).lower()}
    lock = root / "dvc.lock"
    if lock.exists():
        tags["dvc_lock"] = sha256_file(lock)
        if data := hashes_of([DATA], root).get(DATA):
            tags["data"] = data
    return tags


def hashes_of(paths: Collection[str], root: Path = Path()) -> dict[str, str]:
    """Return DVC's hashes, from dvc.lock, of the `paths` that stages of the project `root` write."""
    lock = root / "dvc.lock"
    if not lock.exists():
        return {}
    stages: dict[str, Any] = (yaml.safe_load(lock.read_text(encoding="utf-8")) or {}).get("stages", {})
    outs = [out for stage in stages.values() for out in stage.get("outs", [])]
    return {out["path"]: str(out.get("md5")) for out in outs if out["path"] in paths}


def _git(root: Path, *arguments: str) -> str | None:
    try:
        done = git(root, *arguments)
    except OSError:
        return None
    if "dubious ownership" in done.stderr:
        _warn_of_owner(root.resolve())
    return None if done.returncode else done.stdout.strip()


def git(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"LC_ALL": "C"}
    return subprocess.run(["git", *arguments], cwd=root, env=environment, capture_output=True, text=True)


@cache
def _warn_of_owner(root: Path) -> None:
    _log.warning("%s belongs to another user, so its commit is recorded as unknown; run: %s", root, trust(root))


def trust(root: Path) -> str:
    """Return the command that makes git read a project of another user."""
    return f"git config --global --add safe.directory {root.resolve()}"
