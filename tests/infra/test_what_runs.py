"""External programs that tests need, and proofs that continuous integration omits."""

import os
import re
import subprocess
import sys

from tests.support.imports import ROOT

VARIABLE = "SONORANT_PLATFORM_FLOWS"


def skipped(value: str | None) -> list[str]:
    """Reasons for skipping a proof when the variable has this value; empty if it runs."""
    code = "from tests.support.platform import ON_THE_FULL_STACK as marks\n"
    code += "print(*[mark.kwargs['reason'] for mark in marks if mark.name == 'skipif' and mark.args[0]])"
    environment = {name: text for name, text in os.environ.items() if name != VARIABLE}
    environment |= {} if value is None else {VARIABLE: value}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.splitlines() if done.stdout.strip() else []


def test_the_long_proofs_are_all_run_but_in_ci_which_names_the_command_for_the_rest() -> None:
    assert skipped(None) == []
    [reason] = skipped("0")
    assert "`make test-long`" in reason
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert f"export {VARIABLE}=0\n" in script and "`make test-long` runs all" in script
    contributing = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    files = (ROOT / "tests").rglob("test_*.py")
    left_out = [file.name for file in files if "pytestmark = ON_THE_FULL_STACK\n" in file.read_text(encoding="utf-8")]
    assert "test_platform_kills.py" in left_out and [name for name in left_out if name not in contributing] == []


def test_the_tests_look_for_every_outside_program_that_the_project_knows() -> None:
    recipe = subprocess.run(["make", "-n", "test-programs"], cwd=ROOT, capture_output=True, text=True, check=True)
    names = re.search(r"for name in ([\w ]+);", recipe.stdout)
    script = (ROOT / "infra" / "install_system_packages.sh").read_text(encoding="utf-8")
    known = re.findall(r'^    (\w+)\) packages="', script, flags=re.MULTILINE)
    assert names and sorted(names[1].split()) == sorted(known)
