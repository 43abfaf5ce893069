"""What a training depends on, as one hash: the name of its run directory. Knows nothing of how training works."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from sonorant.files import sha256_tree
from tasks.stage import stage_of_graph


def fingerprint(stage: str, settings: dict[str, Any], data_hash: str) -> str:
    """16 hex digits over settings, data and the code that `dvc.yaml` lists as the stage's dependencies.

    The same fingerprint means that a checkpoint may be resumed; any other one trains anew in a folder of its own.
    """
    deps = stage_of_graph(stage)["deps"]
    code = [Path(dep) for dep in deps if dep.startswith(("sonorant/", "tasks/"))]
    content = {"stage": stage, "settings": settings, "data": data_hash, "code": sha256_tree(code)}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]
