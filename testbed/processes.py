"""The environment of a process that must not reach stores elsewhere."""

import os
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
FROM_OUTSIDE = ("PREFECT", "MLFLOW", "SONORANT", "PET_", "DVC")


def isolated(code: Path = ROOT) -> dict[str, str]:
    """This process's environment without anything that leads to stores elsewhere; `python` is this interpreter, and
    imports from `code`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(FROM_OUTSIDE)}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return kept | {"PATH": path, "PYTHONPATH": str(code), "DO_NOT_TRACK": "1", "DVC_NO_ANALYTICS": "1"}
