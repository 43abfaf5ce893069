"""Where a run comes from, as MLflow tags: commit, data, settings. Knows nothing of MLflow."""

from __future__ import annotations

import subprocess
from pathlib import Path

import yaml

from sonorant.files import sha256_file

DATA = "data/corpus"  # the out of dvc.yaml that is the recordings


def origin_tags(root: Path = Path()) -> dict[str, str]:
    """Tags of the project folder `root`; what is not known yet is left out.

    `git_commit`, `git_dirty` (dvc.lock aside: the pipeline writes it), `dvc_lock` (SHA-256), `data` (DVC's hash of the corpus).
    """
    tags: dict[str, str] = {}
    commit = _git(root, "rev-parse", "HEAD")
    if commit is not None:
        changes = _git(root, "status", "--porcelain", "--untracked-files=no", "--", ":/", ":(top,exclude)dvc.lock")
        tags |= {"git_commit": commit, "git_dirty": str(bool(changes)).lower()}
    lock = root / "dvc.lock"
    if lock.exists():
        tags["dvc_lock"] = sha256_file(lock)
        stages = (yaml.safe_load(lock.read_text()) or {}).get("stages", {})
        for out in [out for stage in stages.values() for out in stage.get("outs", [])]:
            if out["path"] == DATA:
                tags["data"] = str(out.get("md5"))
    return tags


def _git(root: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()
