from pathlib import Path

import pytest

from sonorant.evaluation.report.report_page import ReportInputs
from tests.evaluation.report.stages import write_inputs


@pytest.fixture(scope="session")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> ReportInputs:
    return write_inputs(tmp_path_factory.mktemp("stages"))


@pytest.fixture
def own(tmp_path: Path) -> ReportInputs:
    return write_inputs(tmp_path / "own")
