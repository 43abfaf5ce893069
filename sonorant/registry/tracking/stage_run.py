"""The MLflow run of one stage's process."""

import importlib.util
import json
import logging
import math
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from sonorant.errors import Stopped
from sonorant.registry.tracking.follower import Follower
from sonorant.registry.tracking.mlflow_run import RunSpec, add_origin, execution_id, find_execution, flat
from sonorant.registry.tracking.mlflow_store import open_store, shown

log = logging.getLogger(__name__)
PATIENCE = 20.0
"""Seconds that a finished stage waits for the store to accept something."""


class StageRun:
    """Adds metrics and files to a stage's run. Nothing here waits for MLflow or raises because of it."""

    def __init__(self, directory: Path, follower: Follower) -> None:
        self.directory, self._follower = directory, follower

    def log_metrics(self, values: Mapping[str, Any], step: int = 0) -> None:
        """Add points; nested mappings become "a.b", values that are not finite numbers are left out."""
        numbers = {}
        for key, text in flat(values).items():
            with suppress(ValueError):
                numbers[key] = float(text)
        numbers = {key: value for key, value in numbers.items() if math.isfinite(value)}
        with (self.directory / "metrics.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps({"step": step, "time": time.time(), "metrics": numbers}) + "\n")

    def log_file(self, path: Path, folder: str = "") -> None:
        """Add a file, or a folder's content, to the run's artifacts below `folder`, before the stage ends."""
        self._follower.delivery.files.append((path, folder))


def describe_execution(execution: str, tags: Mapping[str, str]) -> None:
    """Set the origin on the run above an execution's stages: DVC writes its lock only after a stage.

    Does nothing if the store is away, or if the execution has no run because no stage had anything to do.
    """
    try:
        store = open_store()
        run = find_execution(store, execution)
        if run is not None:
            add_origin(store, run, tags)
    except Exception as error:
        log.warning("%s: MLflow lacks the final origin: %s", execution, shown(error)[:300])


@contextmanager
def stage_run(
    stage: str,
    params: Mapping[str, Any] | None = None,
    tags: Mapping[str, str] | None = None,
    run_directory: Path | None = None,
) -> Iterator[StageRun]:
    """Keep this process's work as an MLflow run named `stage`, below the run of its pipeline execution.

    Args:
        stage: the stage's name.
        params: settings, may be nested.
        tags: where the work comes from.
        run_directory: folder with `metrics.jsonl` and `samples/` that is followed while it grows; the same folder later
            continues the same MLflow run. None: the run has only what `log_metrics` and `log_file` add.

    If the store is away the stage goes on; `sync` or the next run sends the rest of a run directory.
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
            if not follower.finish(status, PATIENCE) and importlib.util.find_spec("mlflow"):
                later = f"send it later: sonorant sync-tracking {run_directory}"
                log.warning("%s: MLflow lacks something; %s", stage, later if run_directory else "the run is lost")
