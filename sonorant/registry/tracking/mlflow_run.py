"""Find or create MLflow runs: one per pipeline execution, with a child run per stage."""

import math
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from sonorant.files import locked
from sonorant.registry.tracking.mlflow_store import DEFAULT_DATABASE, Store

KEY_TAG = "sonorant.run"
EXECUTION_TAG = "sonorant.execution"
PARENT_TAG = "mlflow.parentRunId"
SERVED_TAG = "sonorant.executions"
"""Tag with all pipeline executions that a run belongs to; the newest one is its parent."""
ORIGIN_TAGS = ("git_commit", "git_dirty", "dvc_lock", "data")
"""Tags of a stage that apply to the whole pipeline execution."""


@dataclass(frozen=True, kw_only=True)
class RunSpec:
    key: str
    """Unique tag to find a run whose creation was not confirmed."""
    stage: str
    execution: str | None = None
    """Id of the parent pipeline execution; None for a standalone run."""
    params: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    """Where the run comes from, such as git commit and data hash."""


def execution_id() -> str | None:
    """Return the id of the pipeline execution from SONORANT_EXECUTION or the outermost `dvc` process, or None."""
    if named := os.environ.get("SONORANT_EXECUTION"):
        return named
    import psutil

    try:
        ancestors = psutil.Process().parents()
    except psutil.Error:
        return None
    for process in reversed(ancestors):  # the outermost: one `dvc repro` may start others
        try:
            words = process.cmdline()[:4]
            if any(os.path.basename(word) == "dvc" for word in words):  # noqa: PTH119
                return f"dvc-{process.pid}-{int(process.create_time())}"
        except psutil.Error:
            continue
    return None


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Flatten {"train": {"steps": 3}} to {"train.steps": "3"}."""
    result: dict[str, str] = {}
    for key, value in values.items():
        name = f"{prefix}{key}"
        result |= flat(value, f"{name}.") if isinstance(value, dict) else {name: str(value)}
    return result


def flat_numbers(values: Mapping[str, Any]) -> dict[str, float]:
    numbers = {}
    for key, text in flat(values).items():
        with suppress(ValueError):
            numbers[key] = float(text)
    return {key: value for key, value in numbers.items() if math.isfinite(value)}


def open_run(store: Store, spec: RunSpec, run_id: str | None = None) -> str:
    """Find the run by `run_id` or key, or create it; set it to RUNNING as a child of its execution's run. Return its
    id. Raises mlflow's errors."""
    client = store.client
    run = _existing(store, run_id) or _newest(store, KEY_TAG, spec.key)
    if run is None:
        run = client.create_run(store.experiment, run_name=spec.stage, tags={KEY_TAG: spec.key, "stage": spec.stage})
    elif run.info.status != "RUNNING":
        client.update_run(run.info.run_id, status="RUNNING")
    tags = dict(spec.tags)
    if spec.execution:
        tags[PARENT_TAG] = open_execution(store, spec.execution, spec.tags)
        served = run.data.tags.get(SERVED_TAG, "").split()
        tags[SERVED_TAG] = " ".join(dict.fromkeys([*served, spec.execution]))
    _add(store, run, tags, spec.params)
    return str(run.info.run_id)


def open_execution(store: Store, execution: str, tags: dict[str, str]) -> str:
    """Find or create an execution's parent run. It gets the origin tags of the newest stage, because the data hash
    exists only after import."""
    client, name = store.client, f"pipeline {execution}"
    with locked(DEFAULT_DATABASE.with_name("execution.lock")):  # two stages may start simultaneously
        run = find_execution(store, execution)
        if run is None:
            run = client.create_run(store.experiment, run_name=name, tags={EXECUTION_TAG: execution})
    if run.info.status != "RUNNING":
        client.update_run(run.info.run_id, status="RUNNING")
    add_origin(store, run, tags)
    return str(run.info.run_id)


def find_execution(store: Store, execution: str) -> Any:
    return _newest(store, EXECUTION_TAG, execution)


def add_origin(store: Store, run: Any, tags: Mapping[str, str]) -> None:
    _add(store, run, {key: value for key, value in tags.items() if key in ORIGIN_TAGS}, {})


def close_run(store: Store, run_id: str, status: str) -> None:
    """Set the run and its parent to FINISHED, FAILED or KILLED; the next stage reopens the parent."""
    parent = store.client.get_run(run_id).data.tags.get(PARENT_TAG)
    for run in filter(None, (run_id, parent)):
        store.client.set_terminated(run, status)


def _existing(store: Store, run_id: str | None) -> Any:
    if run_id is None:
        return None
    from mlflow.exceptions import MlflowException

    try:
        run = store.client.get_run(run_id)
    except MlflowException as error:
        if error.error_code != "RESOURCE_DOES_NOT_EXIST":
            raise
        return None
    return run if run.info.lifecycle_stage == "active" else None


def _newest(store: Store, tag: str, value: str) -> Any:
    quoted = value.replace("'", "")
    runs = store.client.search_runs([store.experiment], filter_string=f"tags.`{tag}` = '{quoted}'", max_results=1)
    return runs[0] if runs else None


def _add(store: Store, run: Any, tags: dict[str, str], params: dict[str, str]) -> None:
    from mlflow.entities import Param, RunTag

    new_tags = [RunTag(key, value) for key, value in tags.items() if run.data.tags.get(key) != value]
    new_params = [Param(key, value[:6000]) for key, value in params.items() if key not in run.data.params]
    for start in range(0, max(len(new_params), len(new_tags), 1), 100):  # MLflow's limit is 100 per request
        end = start + 100
        store.client.log_batch(run.info.run_id, tags=new_tags[start:end], params=new_params[start:end])
