"""Turn recordings into a registered voice: run each stage of dvc.yaml as a Prefect task, then register and promote the
voice.

DVC decides which stages are outdated.
"""

import os
import sys
import time
import warnings
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from prefect import flow, get_run_logger, task
from prefect.artifacts import create_link_artifact, create_markdown_artifact, create_table_artifact
from prefect.cache_policies import NO_CACHE
from prefect.runtime import flow_run
from prefect.states import Failed, State

from flows import results
from flows.command import failed, run_logged
from flows.graph import read_graph, up_to_date
from flows.nodes import Nodes, first_part, other_nodes
from flows.workspace import bring_back, check_settings, keep_voice, make_workspace
from sonorant.corpus.importers import CorpusConfig
from sonorant.errors import SonorantError
from sonorant.files import locked, read_json
from sonorant.processes import SCHEDULER
from sonorant.registry.registration import RegisterConfig
from sonorant.registry.tracking import TrackingUnavailable, describe_execution
from sonorant.registry.tracking.mlflow_store import store_uri
from tasks import params
from tasks import promote as promoting
from tasks import register as registering
from tasks.origin import origin_tags

# pydantic would warn on every run that the parameter shadows a method of the model that prefect creates from it.
warnings.filterwarnings("ignore", message='Field name "register"', category=UserWarning)

METRICS = Path("reports/metrics.json")
CHOICE = Path("reports/choice.json")
REPORTS = Path("reports")
VOICE = Path("artifacts/voice")
TRAINING = "train_"  # prefix of the stages that can use several machines


def worth_retrying(task: Any, run: Any, state: Any) -> bool:
    """Return whether the failure may be temporary. Only exceptions may be; bad input returns a failed state instead."""
    return isinstance(state.data, Exception)


# Only DVC decides what is up to date; Prefect's cache would not detect deleted outputs. Stages are not retried, because
# the same input fails the same way. Actions are retried, because a server may fail to respond.
STAGE: dict[str, Any] = {"cache_policy": NO_CACHE, "retries": 0}
ACTION: dict[str, Any] = {
    "cache_policy": NO_CACHE,
    "retries": 2,
    "retry_delay_seconds": [5, 30],
    "retry_condition_fn": worth_retrying,
}

OWN = {"train_predictor", "train_waveform", "verify"}
"""Stages that identify a dvc.yaml as this project's."""


@flow(name="train-and-export")
def train_and_export(
    overrides: dict[str, Any] | None = None,
    stages: list[str] | None = None,
    register: bool = True,
    nodes: int = 1,
    shared: bool = False,
    join_timeout: int = 600,
    scheduler: str | None = None,
) -> Any:
    """Run the pipeline of dvc.yaml in the current folder, then register its voice and promote it if it passes the
    gates.

    Args:
        overrides: Settings of params.yaml for this run only, such as {"train_acoustic.steps": 300}. The run then uses a
            copy of the project below runs/workspaces, and its voice is copied to voices/<name>; files that git tracks
            are unchanged.
        stages: Stages to run, with their prerequisites (default: all). Only a run of all registers a voice.
        register: Whether to register and promote.
        nodes: Number of machines to train on: this one, and workers of the pool sonorant-nodes.
        shared: Whether all nodes have this folder under the same path; if not, they fetch features from DVC's remote.
        join_timeout: Maximum seconds for all nodes to fetch their features and join.
        scheduler: Address of a Dask cluster for the stages' work, whose workers have this folder under the same path
            (default: processes of this machine).
    """
    logger = get_run_logger()
    try:
        show_dashboard(scheduler)
        root, execution = Path.cwd(), str(flow_run.id)
        graph = read_graph(root)
        order = graph.order(stages)
        if overrides and set(graph.order(None)) >= OWN:  # a project with other stages has other settings
            check_settings(root / "params.yaml", overrides)
        where = make_workspace(root, root / "runs" / "workspaces" / execution, overrides) if overrides else root
        if overrides:
            logger.info("overrides: running in the copy %s", where)
        several = Nodes(count=nodes, shared=shared, join_seconds=join_timeout) if nodes > 1 else None
        seconds = {}
        for stage in order:
            started = time.monotonic()
            outcome(run_stage(stage, str(where), execution, several, scheduler, return_state=True))
            seconds[stage] = round(time.monotonic() - started, 1)
        voice = where / VOICE
        if overrides:
            bring_back(where, root)
            if voice.exists():
                model = params.load("register", RegisterConfig, where / "params.yaml").model
                corpus = params.load("corpus", CorpusConfig, where / "params.yaml").path
                voice = keep_voice(voice, root, model, corpus)
        verdict, version = None, None
        if register and order == read_graph(where).order(None):
            describe_execution(execution, origin_tags(where))  # DVC wrote its lock after the last stage set its tags
            version = outcome(register_voice(str(where), execution, return_state=True))
            verdict = outcome(promote_voice(str(where), version["version"], return_state=True))
        return report(where, voice, seconds, version, verdict)
    except SonorantError as error:
        return failed(error)


def show_dashboard(scheduler: str | None) -> None:
    """Link the dashboard of the cluster at address `scheduler` to the run. Raises SonorantError if the scheduler does
    not respond."""
    if scheduler is None:
        return
    from sonorant.extras.cluster.address import checked_address
    from sonorant.extras.cluster.flight import dashboard

    page = dashboard(checked_address(scheduler, "scheduler"))
    get_run_logger().info("stages distribute their work over %s; dashboard: %s", scheduler, page or "none")
    if page:
        create_link_artifact(
            key="workers", link=page, link_text="Dask's dashboard", description="Progress of the stages' work"
        )


@task(task_run_name="{stage}", **STAGE)
def run_stage(
    stage: str, where: str, execution: str, nodes: Nodes | None = None, scheduler: str | None = None
) -> State[Any] | None:
    """Run one stage of the project in the folder `where` if it is outdated, and log its output. A training stage uses
    `nodes`."""
    what = f"stage '{stage}'"
    command, folder, environment = stage_command(stage, Path(where), execution)
    environment |= {SCHEDULER: scheduler} if scheduler else {}
    try:
        with alone_in(folder):
            if nodes is None or not stage.startswith(TRAINING) or up_to_date(folder, stage):
                run_logged(what, command, folder, environment)
            else:
                first = first_part(stage, Path.cwd(), folder, nodes)
                with other_nodes(first) as check:
                    run_logged(what, command, folder, environment | first.environment, check)
    except SonorantError as error:
        return Failed(message=str(error))
    return None


def alone_in(folder: Path) -> AbstractContextManager[None]:
    """Wait for other flow runs in this folder, because DVC would fail and suggest removing their lock."""
    logger = get_run_logger()
    return locked(folder / ".dvc/tmp/flow.lock", lambda: logger.info("waiting for another run's stage in %s", folder))


def stage_command(stage: str, folder: Path, execution: str) -> tuple[list[str], Path, dict[str, str]]:
    """Return the command, folder and environment that run an outdated stage of the project in `folder`."""
    environment = {"SONORANT_EXECUTION": execution}
    if "MLFLOW_TRACKING_URI" not in os.environ:
        environment["MLFLOW_TRACKING_URI"] = store_uri()
    # --single-item leaves earlier stages unlocked, so that several runs can work simultaneously.
    return [sys.executable, "-m", "dvc", "--wait-for-lock", "repro", "--single-item", stage], folder, environment


@task(task_run_name="register", **ACTION)
def register_voice(where: str, execution: str) -> dict[str, Any] | State[Any]:
    """Register the voice as a new version of the model, unless it is already a version."""
    root = Path(where)
    try:
        found = registering.register_files(
            voice=root / VOICE,
            metrics=root / METRICS,
            report=root / REPORTS,
            params_file=root / "params.yaml",
            execution=execution,
        )
    except SonorantError as error:
        return refused(error)
    get_run_logger().info("%s", found.says())
    return {"name": found.name, "version": found.version, "run_id": found.run_id, "new": found.new}


@task(task_run_name="promote", **ACTION)
def promote_voice(where: str, version: int) -> dict[str, Any] | State[Any]:
    """Make the version `champion` if it passes the gates of params.yaml. Return the results of the gates."""
    try:
        verdict = promoting.promote_version(version, params_file=Path(where) / "params.yaml")
    except SonorantError as error:
        return refused(error)
    for line in verdict.says():
        get_run_logger().info("%s", line)
    create_table_artifact(key="verdict", table=verdict.rows(), description=verdict.says()[-1])
    return {"gates": {gate.name: gate.says() for gate in verdict.gates}, "champion": verdict.passed}


def refused(error: SonorantError) -> State[Any]:
    """Convert bad input to a failed state, which is not retried. If the store did not respond, raise the error, which
    is retried (`ACTION`)."""
    if isinstance(error, TrackingUnavailable):
        raise error
    return Failed(message=str(error))


def outcome(state: Any) -> Any:
    """Return a task's result. If the task failed, raises SonorantError with its message, or the original exception if
    there is no message."""
    if state.is_failed() and state.message:
        raise SonorantError(" ".join(state.message.split()))
    return state.result()


def report(
    where: Path, voice: Path, seconds: dict[str, float], version: dict[str, Any] | None, verdict: dict[str, Any] | None
) -> dict[str, Any]:
    metrics, choice = (read_json(where / file) if (where / file).exists() else {} for file in (METRICS, CHOICE))
    found = {"where": str(where), "seconds": seconds, "metrics": metrics, "choice": choice, "version": version}
    found |= {"voice": str(voice)} | (verdict or {"gates": {}, "champion": False})
    table = results.intelligibility_rows(metrics) or results.stage_rows(seconds)
    shows = "Word error rates, or the stages' times if none were measured"
    create_table_artifact(key="results", table=table, description=shows)
    page = f"```\n{results.summary(found)}\n```\n"
    create_markdown_artifact(key="report", markdown=page, description="Results and their files")
    return found
