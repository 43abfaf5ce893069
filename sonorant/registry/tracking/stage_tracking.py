"""Track a stage's process as an MLflow run."""

import importlib.util
import json
import logging
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sonorant.errors import Stopped
from sonorant.registry.tracking.follower import Follower
from sonorant.registry.tracking.mlflow_run import RunSpec, add_origin, execution_id, find_execution, flat, flat_numbers
from sonorant.registry.tracking.mlflow_store import open_store, unless_away

log = logging.getLogger(__name__)
PATIENCE = 20.0
"""Seconds without progress after which a finished stage stops sending."""


class StageRun:
    """Adds metrics and files to a stage's run; never waits or raises because of MLflow."""

    def __init__(self, directory: Path, follower: Follower) -> None:
        self.directory, self._follower = directory, follower

    def log_metrics(self, values: Mapping[str, Any], step: int = 0) -> None:
        """Log `values` as points. Nested keys become "a.b"; non-finite values are dropped."""
        with (self.directory / "metrics.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps({"step": step, "time": time.time(), "metrics": flat_numbers(values)}) + "\n")

    def log_file(self, path: Path, folder: str = "") -> None:
        """Log a file, or the contents of a folder, under `folder`."""
        self._follower.delivery.files.append((path, folder))


def describe_execution(execution: str, tags: Mapping[str, str]) -> None:
    """Tag an execution's run with its origin; a stage cannot do this, because DVC writes dvc.lock after the stage. Does
    nothing if the store is unavailable or no stage ran."""
    with unless_away(execution):
        store = open_store()
        if run := find_execution(store, execution):
            add_origin(store, run, tags)


@contextmanager
def stage_run(
    stage: str,
    params: Mapping[str, Any] | None = None,
    tags: Mapping[str, str] | None = None,
    run_directory: Path | None = None,
) -> Iterator[StageRun]:
    """Track this process as an MLflow run named `stage`, a child of the pipeline execution's run.

    `params` are settings, possibly nested; `tags` describe the origin. `metrics.jsonl` and `samples/` in
    `run_directory` are sent as they grow, and its run can be resumed. If the store is unavailable, `sync` or the next
    run sends the rest.
    """
    flat_params, all_tags = flat(params or {}), {"stage": stage, **(tags or {})}
    spec = RunSpec(key=uuid.uuid4().hex, stage=stage, execution=execution_id(), params=flat_params, tags=all_tags)
    with tempfile.TemporaryDirectory() as temporary:
        directory = run_directory or Path(temporary)
        follower = Follower(directory, spec)
        follower.start()
        status = "FAILED"
        try:
            yield StageRun(directory, follower)
            status = "FINISHED"
        except (KeyboardInterrupt, Stopped):
            status = "KILLED"
            raise
        finally:
            patience = PATIENCE / 10 if status == "KILLED" else PATIENCE
            if not follower.finish(status, patience) and importlib.util.find_spec("mlflow"):
                later = f"send the rest later with: sonorant sync-tracking {run_directory}"
                log.warning(
                    "%s: not completely sent to MLflow; %s", stage, later if run_directory else "the rest is lost"
                )
