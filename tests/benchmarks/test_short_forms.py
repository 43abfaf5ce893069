"""Every benchmark has a short form that runs to its end, so that none breaks unseen."""

import importlib
import json
import re
import shutil
import subprocess
import sys

import pytest

from tests.support.imports import ROOT
from tests.support.machines import why_not

MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
[RUN] = re.findall(r"for name in ([\w ]+); do \\\n\t\tpython -m benchmarks", MAKEFILE)
BENCHMARKS = [*RUN.split(), "gpu_check"]
NEEDS = {
    "quantization": "flite",
    "alignment": "flite",
    "audit": "flite",
    "audit_worth": "flite",
    "long_recordings": "flite",
    "timings": "flite",
}
LONG = {"two_nodes"}
"""These are the only proof of what they claim, so `make test-long` runs them too."""


def with_a_verdict() -> set[str]:
    """Modules that end with a verdict, but for the parts of `gpu_check`."""
    files = (ROOT / "benchmarks").glob("*.py")
    found = {path.stem for path in files if "options(parser, SHORT)" in path.read_text(encoding="utf-8")}
    return found - {"gpu_engines", "gpu_tokens"}


def test_make_runs_every_benchmark_and_the_docs_name_it() -> None:
    assert set(BENCHMARKS) == with_a_verdict()
    page = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `python -m benchmarks\.(\w+)` \|", page, flags=re.MULTILINE)) == set(BENCHMARKS)


@pytest.mark.parametrize("name", BENCHMARKS)
def test_its_short_form_sets_options_that_it_has(name: str) -> None:
    benchmark = importlib.import_module(f"benchmarks.{name}")
    source = (ROOT / "benchmarks" / f"{name}.py").read_text(encoding="utf-8")
    known = {option.replace("-", "_") for option in re.findall(r'"--([\w-]+)"', source)}
    assert benchmark.SHORT and benchmark.SHORT.keys() <= known


@pytest.mark.bench
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] if name in LONG else []) for name in BENCHMARKS]
)
def test_its_short_form_ends_with_a_verdict(name: str) -> None:
    if name in {"two_nodes", "links"} and why_not():
        pytest.skip(f"machines cannot be made: {why_not()}")
    if name in NEEDS and shutil.which(NEEDS[name]) is None:
        pytest.skip(f"{NEEDS[name]} is not installed")
    command = [sys.executable, "-m", f"benchmarks.{name}", "--short"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=590)
    assert done.returncode == 0, done.stdout + done.stderr
    verdict = json.loads(done.stdout.splitlines()[-1])
    assert verdict["benchmark"].startswith(name) and verdict["result"]
