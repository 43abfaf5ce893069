"""`kill -9` of each server during a training, a registration and a promotion: nothing is lost or repeated. The
training is a stand-in that logs one point per step; the servers and their clients are real."""

import subprocess
from contextlib import suppress

import psutil
import pytest

from infra.background import Background
from sonorant.files import sha256_file
from tests.support.platform import ON_THE_FULL_STACK, Stack
from tests.support.platform_project import MODEL
from tests.support.waiting import PATIENCE, wait_until

pytestmark = ON_THE_FULL_STACK

STEPS = {"postgres": 401, "s3": 402, "mlflow": 403, "prefect": 404}
"""Number of training steps per killed server; each number has its own run directory."""


def kill(stack: Stack, server: str) -> None:
    """End a server and its children as a crash would; `make serve STACK=full` restarts it."""
    process = Background(stack.folder / "processes").alive(server)
    assert process is not None, f"{server} does not run"
    all_of_it = [process, *process.children(recursive=True)]
    for each in all_of_it:
        with suppress(psutil.NoSuchProcess):
            each.kill()
    _, left = psutil.wait_procs(all_of_it, timeout=PATIENCE)  # PostgreSQL does not start while an old process remains
    assert left == []


def bring_back(stack: Stack) -> None:
    done = stack.start()
    assert done.returncode == 0, done.stderr


def finished(stack: Stack, process: subprocess.Popen[str], *words: str) -> None:
    """Assert that the command succeeded, or failed with one line and succeeds when repeated."""
    _, errors = process.communicate(timeout=900)
    if process.returncode != 0:
        last = errors.strip().splitlines()[-1]
        assert process.returncode == 1 and last.startswith("error: ") and "Traceback" not in errors, errors
        stack.run(*words)


@pytest.mark.parametrize("server", STEPS)
def test_a_training_outlives_a_server(stack: Stack, server: str) -> None:
    steps = STEPS[server]
    run = stack.begin(overrides={"train_acoustic.steps": steps}, register=False)
    wait_until(lambda: len(stack.trained(steps)) > 20, patience=600)
    kill(stack, server)
    assert len(stack.trained(steps)) < steps, "the training was over before the server was killed"
    bring_back(stack)
    assert stack.ended(run) == {run: "COMPLETED"}, stack.logs(run)
    assert len(stack.trained(steps)) == steps
    [points] = [points for executions, points in stack.curves() if run in executions]
    assert sorted(points) == list(range(1, steps + 1)), "a point is lost or there twice"


@pytest.mark.parametrize("server", ["postgres", "s3", "mlflow"])
def test_a_registration_is_whole_or_not_there(stack: Stack, server: str) -> None:
    stack.place_voice(f"registered-{server}")
    before = stack.registry()["versions"]
    process = stack.begun("tasks.register")
    wait_until(lambda: process.poll() is not None or uploading(stack), patience=300, pause=0.2)
    assert process.poll() is None, "it was over before a server could be killed"
    kill(stack, server)
    bring_back(stack)
    finished(stack, process, "tasks.register")
    after = stack.registry()["versions"]
    [new] = after.keys() - before.keys()
    assert {name: version for name, version in after.items() if name != new} == before
    here = {sha256_file(path) for path in (stack.root / "artifacts/voice").rglob("*") if path.is_file()}
    assert here <= {sha256 for _, sha256 in after[new]["files"]}
    stack.run("sonorant.cli.main", "say", "Whole.", "--voice", f"models:/{MODEL}/{new}", "-o", "whole.wav")


def uploading(stack: Stack) -> bool:
    """Whether MLflow has the run of a registration whose files are being uploaded."""
    code = "import mlflow\nclient = mlflow.MlflowClient()\n"
    code += "experiments = [each.experiment_id for each in client.search_experiments()]\n"
    code += "runs = client.search_runs(experiments, max_results=50)\n"
    code += "found = [run.info.status for run in runs if run.data.tags['mlflow.runName'].startswith('register')]"
    return "RUNNING" in stack.python(code)


@pytest.mark.parametrize("server", ["postgres", "s3", "mlflow"])
@pytest.mark.parametrize("moment", ["judging", "recording"])
def test_a_promotion_happens_once(stack: Stack, server: str, moment: str) -> None:
    """The promotion is paused while the server is killed, so it cannot have finished."""
    crown_two(stack)
    stack.place_voice(f"promoted-{server}-{moment}")
    stack.run("tasks.register")
    before = stack.registry(files=False)
    new, former = before["aliases"]["challenger"], before["aliases"]["champion"]
    process = stack.begun("tasks.promote")
    reached = {"judging": lambda: asking(process, stack), "recording": lambda: gates(stack, new)}[moment]
    wait_until(lambda: process.poll() is not None or reached(), patience=600, pause=0.01)
    assert process.poll() is None, "it was over before a server could be killed"
    psutil.Process(process.pid).suspend()
    try:
        assert (len(gates(stack, new)) > 0) == (moment == "recording")
        assert champion(stack) == former, "the aliases have moved already"
        assert process.poll() is None
        kill(stack, server)
    finally:
        psutil.Process(process.pid).resume()
    bring_back(stack)
    finished(stack, process, "tasks.promote")
    after = stack.registry(files=False)
    assert after["aliases"] == before["aliases"] | {"champion": new, "previous": former}
    assert after["tags"] == {}, "a move of the aliases is not over"
    promoted, like = after["versions"].pop(new), before["versions"][former]
    assert after["versions"] == {name: version for name, version in before["versions"].items() if name != new}
    verdict = {name: text for name, text in promoted["tags"].items() if name.startswith(("gate.", "verdict"))}
    assert promoted["tags"] == before["versions"][new]["tags"] | verdict
    assert verdict.keys() == {name for name in like["tags"] if name.startswith(("gate.", "verdict"))}
    assert verdict.pop("verdict").endswith(f" is champion; version {former} is previous")
    assert all(text.startswith("passed: ") for text in verdict.values())


def crown_two(stack: Stack) -> None:
    """Ensure a champion that followed another one, so the next promotion moves both aliases."""
    while "previous" not in (registry := stack.registry(files=False))["aliases"]:
        stack.place_voice(f"crowned-{len(registry['versions'])}")
        stack.run("tasks.register")
        stack.run("tasks.promote")


def gates(stack: Stack, version: str) -> list[str]:
    """Names of the gates with a verdict on the version."""
    found = stack.mlflow(f"model-versions/get?name={MODEL}&version={version}")["model_version"]
    return [tag["key"] for tag in found.get("tags", []) if tag["key"].startswith("gate.")]


def champion(stack: Stack) -> str:
    found = stack.mlflow(f"registered-models/get?name={MODEL}")["registered_model"]["aliases"]
    return str(next(each["version"] for each in found if each["alias"] == "champion"))


@pytest.mark.parametrize("task", ["register", "promote"])
def test_a_flow_goes_on_to_its_champion_though_prefect_dies(stack: Stack, task: str) -> None:
    stack.place_source(f"flow-{task}")
    before = stack.registry()["versions"]
    run = stack.begin()
    wait_until(lambda: task in running(stack, run), patience=600, pause=0.2)
    kill(stack, "prefect")
    bring_back(stack)
    assert stack.ended(run) == {run: "COMPLETED"}, stack.logs(run)
    registry = stack.registry()
    [new] = registry["versions"].keys() - before.keys()
    assert registry["aliases"]["champion"] == new


def running(stack: Stack, run: str) -> list[str]:
    """Names of a flow run's tasks that Prefect reports as running."""
    wanted = {"flow_runs": {"id": {"any_": [run]}}, "task_runs": {"state": {"type": {"any_": ["RUNNING"]}}}}
    return [str(each["name"]) for each in stack.prefect("task_runs/filter", wanted)]


def asking(process: subprocess.Popen[str], stack: Stack) -> bool:
    """Whether the process has a connection to MLflow."""
    port = int(stack.environment["SONORANT_MLFLOW_PORT"])
    connections = psutil.Process(process.pid).net_connections(kind="tcp")
    return any(each.raddr and each.raddr.port == port for each in connections)
