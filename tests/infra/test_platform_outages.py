"""Each server of the platform dies by `kill -9` in the middle of something: nothing is lost, nothing is there twice."""

import os
from collections.abc import Callable

import psutil
import pytest

from tests.support.platform import Stack
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]  # minutes on a busy machine

STEPS = """
import mlflow
client, found = mlflow.MlflowClient(), []
for run in mlflow.search_runs(search_all_experiments=True, output_format="list"):
    if run.data.tags.get("stage") == "train_acoustic":
        found.append([point.step for point in client.get_metric_history(run.info.run_id, "train/loss")])
found = [steps for steps in found if len(steps) > 45]
"""
"""Steps of each training of the test; of other tests' there are fewer."""
SERVERS = ("postgres", "s3", "mlflow", "prefect")


def test_a_training_outlives_every_server(stack: Stack) -> None:
    hold, held = (stack.root / "runs" / name for name in ("hold", "held"))
    hold.touch()
    stack.set_steps(50)
    try:
        run = stack.begin(stages=["train_predictor"])
        wait_until(held.exists, patience=1500)
        for server in SERVERS:
            stack.kill(server)
            started = stack.start()
            assert started.returncode == 0, started.stderr
            assert f"starting {server}" in started.stderr
    finally:
        hold.unlink()
    assert stack.ended(run) == {run: "COMPLETED"}, stack.logs(run)
    assert stack.python(STEPS) == [list(range(1, 51))], "each step once, in one run"


def writes_objects(stack: Stack) -> Callable[[int], bool]:
    """Whether the store's blocks became more: something is just sent there."""
    blocks = stack.folder / "s3" / "blocks"
    before = sum(len(files) for _, _, files in os.walk(blocks))
    return lambda pid: sum(len(files) for _, _, files in os.walk(blocks)) > before


def talks_to_mlflow(stack: Stack) -> Callable[[int], bool]:
    """Whether a process of this pid is connected to MLflow's server."""
    port = int(stack.environment["SONORANT_MLFLOW_PORT"])
    return lambda pid: any(
        each.raddr and each.raddr.port == port for each in psutil.Process(pid).net_connections("inet")
    )


@pytest.mark.parametrize("server", ["postgres", "s3", "mlflow"])
@pytest.mark.parametrize(("task", "begun"), [("register", writes_objects), ("promote", talks_to_mlflow)])
def test_an_action_cut_short_is_one_line_and_done_once_by_the_next(
    stack: Stack, server: str, task: str, begun: Callable[[Stack], Callable[[int], bool]]
) -> None:
    stack.place_voice(f"{task}-{server}")
    if task == "promote":
        stack.run("tasks.register")
    before, in_the_middle = stack.registry(), begun(stack)
    process = stack.begin_module(f"tasks.{task}")
    wait_until(lambda: process.poll() is not None or in_the_middle(process.pid))
    stack.kill(server)
    _, said = process.communicate(timeout=300)
    if process.returncode != 0:
        assert len(said.strip().splitlines()) == 1 and said.startswith("error: "), said
    assert stack.start().returncode == 0
    stack.run(f"tasks.{task}")
    after = stack.registry()
    assert len(after["versions"]) == len(before["versions"]) + (task == "register")
    assert len({str(version["files"]) for version in after["versions"].values()}) == len(after["versions"])
    if task == "promote":
        assert after["aliases"]["champion"] == max(after["versions"])
    assert {int(version) for version in after["versions"]} == set(range(1, len(after["versions"]) + 1))
