"""The platform tour can be repeated, and leaves existing servers as they were."""

import os

import psutil
import pytest

from infra import tour
from infra.background import Background
from infra.platform.native import JOBS, NATIVE
from tests.support.platform import ON_THE_FULL_STACK, Stack
from tests.support.platform_project import MODEL

pytestmark = ON_THE_FULL_STACK


@pytest.fixture
def here(stack: Stack, monkeypatch: pytest.MonkeyPatch) -> Stack:
    """Run in the project's folder and signed in, like the tour."""
    monkeypatch.chdir(stack.root)
    for name, value in (stack.environment | stack.client).items():
        monkeypatch.setenv(name, value)
    return stack


def running(stack: Stack) -> dict[str, psutil.Process]:
    servers = Background(stack.folder / "processes")
    found = {name: servers.alive(name) for name in NATIVE}
    return {name: process for name, process in found.items() if process}


def test_servers_that_ran_before_run_afterwards_and_what_was_started_is_stopped(here: Stack) -> None:
    Background(here.folder / "processes").stop("worker")
    before = running(here)
    assert before.keys() == NATIVE.keys() - JOBS - {"worker"}
    try:
        with tour.platform():
            assert running(here).keys() == NATIVE.keys() - JOBS
            assert os.environ["MLFLOW_TRACKING_PASSWORD"] == here.client["MLFLOW_TRACKING_PASSWORD"]
        assert running(here) == before, "the same processes"
    finally:
        assert here.start().returncode == 0


def test_the_version_is_that_of_the_run_also_where_it_is_registered_already(here: Stack) -> None:
    here.place_source("of the first walk")
    first = tour.deployed(MODEL, {})
    here.place_source("of another voice")
    other = tour.deployed(MODEL, {})
    assert first < other == max(map(int, here.registry(files=False)["versions"]))
    here.place_source("of the first walk")
    assert tour.deployed(MODEL, {"train_acoustic.steps": 22}) == first, "the run works in a copy of the project"
