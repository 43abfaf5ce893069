"""Find or make MLflow runs: one for each pipeline execution, with one for each stage below it."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sonorant.files import locked
from sonorant.registry.tracking.mlflow_store import DEFAULT_DATABASE, Store

KEY_TAG = "sonorant.run"
EXECUTION_TAG = "sonorant.execution"
PARENT_TAG = "mlflow.parentRunId"
SERVED_TAG = "sonorant.executions"
"""Ids of all executions that a run has served. It stands below the newest, which continued it."""
ORIGIN_TAGS = ("git_commit", "git_dirty", "dvc_lock", "data")
"""Tags of a stage that hold for its whole execution."""


@dataclass(frozen=True, kw_only=True)
class RunSpec:
    """Description of a run, independent of the store."""

    key: str
    """Unique name, kept as a tag: finds a run whose creation was not answered, so that it is not made twice."""
    stage: str
    """The stage's name, also the run's."""
    execution: str | None = None
    """Id of the pipeline execution above it; None = a run of its own."""
    params: dict[str, str] = field(default_factory=dict)
    """Flat settings."""
    tags: dict[str, str] = field(default_factory=dict)
    """Where it comes from: git commit, data hash, ..."""


def execution_id() -> str | None:
    """Id of the pipeline execution above this process, from SONORANT_EXECUTION or the `dvc` process, or None."""
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
    """{"train": {"steps": 3}} -> {"train.steps": "3"}."""
    result: dict[str, str] = {}
    for key, value in values.items():
        name = f"{prefix}{key}"
        result |= flat(value, f"{name}.") if isinstance(value, dict) else {name: str(value)}
    return result


def open_run(store: Store, spec: RunSpec, run_id: str | None = None) -> tuple[str, bool]:
    """Find the MLflow run for `spec` by `run_id` or by its key, or make it. Returns (id, whether it is new).

    The run is set to RUNNING, below its execution's run. Raises what mlflow raises when the store is away.
    """
    client = store.client
    run = _existing(store, run_id) or _newest(store, KEY_TAG, spec.key)
    new = run is None
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
    return run.info.run_id, new


def open_execution(store: Store, execution: str, tags: dict[str, str]) -> str:
    """Id of the run above the stages of one pipeline execution, found or made.

    It takes the origin of its newest stage: the hash of the data is known only once the corpus is imported.
    """
    client, name = store.client, f"pipeline {execution}"
    with locked(DEFAULT_DATABASE.with_name("execution.lock")):  # two stages may start at the same time
        run = find_execution(store, execution)
        if run is None:
            run = client.create_run(store.experiment, run_name=name, tags={EXECUTION_TAG: execution})
    if run.info.status != "RUNNING":
        client.update_run(run.info.run_id, status="RUNNING")
    add_origin(store, run, tags)
    return str(run.info.run_id)


def find_execution(store: Store, execution: str) -> Any:
    """The run above the stages of one pipeline execution, or None."""
    return _newest(store, EXECUTION_TAG, execution)


def add_origin(store: Store, run: Any, tags: Mapping[str, str]) -> None:
    """Set the `tags` that hold for a whole execution."""
    _add(store, run, {key: value for key, value in tags.items() if key in ORIGIN_TAGS}, {})


def close_run(store: Store, run_id: str, status: str) -> None:
    """End the run and its execution: FINISHED, FAILED or KILLED. The execution's next stage opens it again."""
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
    """Log what the run lacks; MLflow refuses to change a param, so its first value stays."""
    from mlflow.entities import Param, RunTag

    new_tags = [RunTag(key, value) for key, value in tags.items() if run.data.tags.get(key) != value]
    new_params = [Param(key, value[:6000]) for key, value in params.items() if key not in run.data.params]
    for start in range(0, max(len(new_params), len(new_tags), 1), 100):  # MLflow takes 100 of each per request
        end = start + 100
        store.client.log_batch(run.info.run_id, tags=new_tags[start:end], params=new_params[start:end])
