"""Flow that runs each node after the first of a training run on several machines."""

import platform
import sys
from pathlib import Path
from typing import Any

from prefect import flow
from prefect.runtime import flow_run

from flows.command import failed, run_logged
from flows.graph import read_graph
from flows.nodes import Part
from flows.workspace import make_workspace
from sonorant.errors import SonorantError
from sonorant.files import write_text
from tasks.origin import origin_tags


@flow(name="train-node")
def train_node(part: Part) -> Any:
    """Train as one of several nodes, in a copy of the current folder or, if shared, the first node's folder.

    Args:
        part: What to train and with which nodes; set by train-and-export.
    """
    try:
        where = Path(part.folder) if part.folder else own_copy(Path.cwd(), part)
        command = read_graph(where).commands[part.stage]
        run_logged(f"stage '{part.stage}'", ["sh", "-c", command], where, part.environment)
        return None
    except SonorantError as error:
        return failed(SonorantError(f"{platform.node()}: {error}"))


def own_copy(root: Path, part: Part) -> Path:
    """Copy this node's project `root`, with the first node's settings, and fetch the features in its dvc.lock.

    Raises SonorantError if the project is at a different commit or the features cannot be fetched.
    """
    commit = origin_tags(root).get("git_commit", "unknown")
    if commit != part.commit:
        raise SonorantError(f"{root} is at commit {commit}, not the first node's; run: git checkout {part.commit}")
    where = make_workspace(root, root / "runs" / "workspaces" / str(flow_run.id), {})
    write_text(where / "params.yaml", part.params)
    write_text(where / "dvc.lock", part.lock)
    pull = [sys.executable, "-m", "dvc", "pull", *map(str, read_graph(where).inputs[part.stage])]
    run_logged("features could not be fetched", pull, where, {})
    return where
