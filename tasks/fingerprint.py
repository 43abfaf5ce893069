"""What a training depends on, as one hash: the name of its run directory. Knows nothing of how training works."""

from __future__ import annotations

import hashlib
import json
import subprocess
from pathlib import Path
from typing import Any

import yaml

from sonorant.files import sha256_tree

GRAPH = Path("dvc.yaml")


def fingerprint(stage: str, settings: dict[str, Any], data_hash: str) -> str:
    """16 hex digits over settings, data and the code that `dvc.yaml` lists as the stage's dependencies.

    The same fingerprint means that a checkpoint may be resumed; any other one trains anew in a folder of its own.
    """
    deps = yaml.safe_load(GRAPH.read_text(encoding="utf-8"))["stages"][stage]["deps"]
    code = [Path(dep) for dep in deps if dep.startswith(("sonorant/", "tasks/"))]
    content = {"stage": stage, "settings": settings, "data": data_hash, "code": sha256_tree(code)}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def git_commit() -> str:
    """The commit checked out here, with `-dirty` if files differ from it; `unknown` outside a repository."""
    try:
        done = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"], capture_output=True, text=True
        )
    except FileNotFoundError:
        return "unknown"
    return done.stdout.strip() if done.returncode == 0 else "unknown"
