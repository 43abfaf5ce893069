"""A folder of its own with an empty MLflow registry in it."""

from pathlib import Path

import pytest

pytest.importorskip("mlflow")


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SONORANT_EXECUTION", raising=False)
    # mlflow keeps what it was told in the environment; the fixture puts it back.
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    return tmp_path
