"""A server outage loses no training points."""

import os
from pathlib import Path

import pytest

from tests.registry.mlflow_outage import complete, goes_and_comes, never_returns, served

pytestmark = pytest.mark.long

pytest.importorskip("mlflow")


def test_a_training_whose_server_dies_ends_well_and_owes_nothing_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(
        "MLFLOW_TRACKING_URI", os.environ.get("MLFLOW_TRACKING_URI", "")
    )  # restored after `served` has set it
    with served(tmp_path / "short") as server:
        found = never_returns(server, steps=240)  # still running when the server dies
    assert found["exit_code"] == 0
    assert found["missing_before_sync"] > 0, "the server was not missed"
    assert complete(found["delivered"]), found


def test_a_training_whose_server_goes_and_comes_delivers_everything_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", os.environ.get("MLFLOW_TRACKING_URI", ""))
    with served(tmp_path / "short") as server:
        found = goes_and_comes(server, steps=1500, seconds=3.0)
    assert found["exit_code"] == 0 and complete(found["delivered"]), found
