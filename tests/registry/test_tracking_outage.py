"""The short form of benchmarks/tracking_outage.py: a real stage whose real server dies and comes back only when the
stage is over."""

import os
from pathlib import Path

import pytest

from benchmarks.tracking_outage import complete, never_returns, served

pytestmark = pytest.mark.long

pytest.importorskip("mlflow")


def test_a_training_whose_server_dies_ends_well_and_owes_nothing_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(
        "MLFLOW_TRACKING_URI", os.environ.get("MLFLOW_TRACKING_URI", "")
    )  # restored after `served` has set it
    with served(tmp_path / "short") as server:
        found = never_returns(server, steps=240)  # so that it is not over when the server dies
    assert found["exit_code"] == 0
    assert found["missing_before_sync"] > 0, "the server was not missed"
    assert complete(found["delivered"]), found
