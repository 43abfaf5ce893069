"""Verdicts of infra/tensorrt/exercise.py, without TensorRT."""

import subprocess
import sys

import pytest

from infra.tensorrt.exercise import TESTS, all_ran, last_line, passed
from sonorant.errors import SonorantError
from sonorant.extras.tensorrt.key import missing
from tests.support.imports import ROOT

VERDICT = '{"benchmark": "latency", "holds": false}'


def summary_of(*tests: str) -> str:
    done = subprocess.run([sys.executable, "-m", "pytest", "-rs", *tests], cwd=ROOT, capture_output=True, text=True)
    return last_line(done.stdout, "passed|failed|skipped|error")


@pytest.mark.long
@pytest.mark.skipif(missing() is None, reason="TensorRT and a GPU are here")
def test_tests_that_were_skipped_did_not_run() -> None:
    assert not all_ran(summary_of(TESTS))
    assert all_ran(summary_of("tests/extras/tensorrt/test_rules.py", "-k", "file_that_is_no_graph"))


@pytest.mark.parametrize(
    "summary",
    ["1 failed, 11 passed in 3.1s", "11 passed, 1 error in 2s", "11 passed, 1 skipped in 2s", "no tests ran in 0s"],
)
def test_only_a_clean_summary_counts(summary: str) -> None:
    assert not all_ran(summary) and all_ran("12 passed in 3.10s") and all_ran("12 passed, 2 warnings in 3.10s")


def test_the_verdict_is_found_and_its_absence_said() -> None:
    assert last_line(f"table\n{VERDICT}\nTraceback: late\n", r'^\{"benchmark"') == VERDICT
    with pytest.raises(SonorantError, match="without its verdict"):
        last_line("error: no such voice\n", r'^\{"benchmark"')


def test_a_candidate_that_did_not_run_did_not_pass() -> None:
    assert passed({"passed": True}) and not any(map(passed, [{"passed": False}, "not run: why", None]))
