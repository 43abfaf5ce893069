import json
import re
import shutil
import subprocess
import sys

import pytest

from testbed.machines import why_not
from tests.support.imports import ROOT

FILES = [path for path in (ROOT / "benchmarks").glob("*/*.py") if "options(parser, SHORT)" in path.read_text("utf-8")]
BENCHMARKS = sorted(path.stem for path in FILES)
NEEDS_FLITE = {"audit", "features", "long_recordings", "timings"}
NEEDS_A_DEMO = {"quantization"}


def test_the_command_lists_every_benchmark_and_the_docs_name_it() -> None:
    done = subprocess.run([sys.executable, "-m", "benchmarks"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert sorted(re.findall(r"^  (\w+) ", done.stdout, flags=re.MULTILINE)) == BENCHMARKS
    page = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    assert set(BENCHMARKS) <= set(re.findall(r"python -m benchmarks (\w+)", page))


def test_tests_and_benchmarks_do_not_import_each_other() -> None:
    found = [
        str(path.relative_to(ROOT))
        for folder, other in (("tests", "benchmarks"), ("benchmarks", "tests"), ("testbed", r"(?:tests|benchmarks)"))
        for path in (ROOT / folder).rglob("*.py")
        if re.search(rf"^ *(?:from|import) {other}\b", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    ]
    assert found == []


@pytest.mark.bench
@pytest.mark.parametrize("name", BENCHMARKS)
def test_its_short_form_ends_with_a_verdict(name: str) -> None:
    if name == "links" and why_not():
        pytest.skip(f"machines cannot be made: {why_not()}")
    if name in NEEDS_FLITE and shutil.which("flite") is None:
        pytest.skip("flite is not installed")
    if name in NEEDS_A_DEMO and not (ROOT / "models/predictor").exists():
        pytest.skip("needs a finished demo")
    command = [sys.executable, "-m", "benchmarks", name, "--short"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=590)
    assert done.returncode == 0, done.stdout + done.stderr
    verdict = json.loads(done.stdout.splitlines()[-1])
    assert verdict["benchmark"].startswith(name) and verdict["result"]
