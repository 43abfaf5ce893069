"""`kill -9` of the worker during a flow run, alone or with its children: nothing is repeated."""

import psutil
import pytest

from infra.background import Background
from tests.infra.test_platform_kills import bring_back
from tests.support.platform import ON_THE_FULL_STACK, Stack
from tests.support.waiting import PATIENCE, wait_until

pytestmark = ON_THE_FULL_STACK

STEPS = {"worker": 405, "machine": 406}
"""Number of steps of the interrupted training; each number has its own run directory."""


@pytest.mark.parametrize("dies", STEPS)
def test_a_flow_run_whose_worker_died_goes_on_where_it_was_when_it_is_run_again(stack: Stack, dies: str) -> None:
    steps = STEPS[dies]
    settings = {"train_acoustic.steps": steps}
    stack.place_source(f"whose {dies} died")
    before = stack.registry(files=False)["versions"]
    run = stack.begin(overrides=settings)
    wait_until(lambda: len(stack.trained(steps)) > 20, patience=600)
    worker = Background(stack.folder / "processes").alive("worker")
    assert worker is not None
    below = worker.children(recursive=True)
    assert len(below) >= 3, "the flow, DVC and the training"
    for each in [worker, *(below if dies == "machine" else [])]:
        each.kill()
    if dies == "worker":  # the flow notices at its next log line, which nobody reads, and ends its stage
        assert stack.ended(run) == {run: "CRASHED"}
    _, left = psutil.wait_procs(below, timeout=PATIENCE)
    done = len(stack.trained(steps))
    assert left == [] and 20 < done < steps
    bring_back(stack)
    if dies == "worker":
        stack.run("prefect", "flow-run", "retry", run)
        again = run
    else:
        assert stack.state(run) == "RUNNING", "Prefect is not told of its end"
        again = stack.begin(overrides=settings)
        stack.run("prefect", "flow-run", "delete", run)
    assert stack.ended(again) == {again: "COMPLETED"}, stack.logs(again)
    assert f"from step {done + 1}" in stack.logs(again).splitlines()
    assert len(stack.trained(steps)) == steps
    [points] = [points for executions, points in stack.curves() if again in executions]
    assert sorted(points) == list(range(1, steps + 1)), "a point is lost or there twice"
    registry = stack.registry(files=False)
    [new] = registry["versions"].keys() - before.keys()
    assert registry["aliases"]["champion"] == new
