"""The loss of a machine, for real: the short form of benchmarks/two_nodes.py, in two network namespaces."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.support.imports import ROOT
from tests.support.machines import why_not

pytestmark = pytest.mark.long


@pytest.mark.skipif(why_not() is not None, reason=f"two machines cannot be made: {why_not()}")
def test_when_a_machine_dies_the_other_ends_and_the_next_start_resumes_to_the_same_bits() -> None:
    command = [sys.executable, "-m", "benchmarks.two_nodes", "--by-hand", "--steps", "30"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=550)
    assert done.returncode == 0, done.stdout + done.stderr
    verdict = json.loads(done.stdout.splitlines()[-1])
    assert verdict["holds"] and len(verdict["claims"]) == 6
