"""dvc.yaml against the code: a stage that runs code it does not list would not be run again when that code changes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from tasks import params
from tests.support.imports import ROOT, closure

GRAPH = yaml.safe_load((ROOT / "dvc.yaml").read_text(encoding="utf-8"))["stages"]
PLUMBING = ("tasks/__init__.py", "tasks/stage.py", "tasks/params.py", "tasks/origin.py", "tasks/training.py", "tasks/fingerprint.py",
            "tasks/initial.py",  # what it finds is in the fingerprint by its content
            "sonorant/__init__.py", "sonorant/errors.py", "sonorant/files.py", "sonorant/gpu.py", "sonorant/tracking/")  # fmt: skip
"""Carries results and messages but cannot change them."""


def module(stage: str) -> Path:
    return ROOT / (re.findall(r"python -m ([\w.]+)", GRAPH[stage]["cmd"])[0].replace(".", "/") + ".py")


def unlisted(stage: str) -> set[str]:
    deps = [dep for dep in GRAPH[stage]["deps"] if (ROOT / dep).exists()]
    files = {str(path.relative_to(ROOT)) for path in closure(module(stage))}
    return {file for file in files if not file.startswith(PLUMBING) and not any(file == dep or file.startswith(f"{dep}/") for dep in deps)
            and not file.endswith("__init__.py")}  # fmt: skip


@pytest.mark.parametrize("stage", GRAPH)
def test_a_stage_lists_all_the_code_it_runs(stage: str) -> None:
    assert unlisted(stage) == set()


def test_the_closure_sees_imports_inside_functions() -> None:
    assert ROOT / "sonorant/runtime/torch.py" in closure(ROOT / "tasks/evaluate.py")


@pytest.mark.parametrize("stage", GRAPH)
def test_a_stage_lists_no_code_it_does_not_run(stage: str) -> None:
    files = {str(path.relative_to(ROOT)) for path in closure(module(stage))}
    for dep in GRAPH[stage]["deps"]:
        if dep.startswith(("sonorant/", "tasks/")):
            assert any(file == dep or file.startswith(f"{dep}/") for file in files), (
                f"{stage} lists {dep} and does not run it"
            )


def test_every_section_of_params_belongs_to_a_stage_or_an_action() -> None:
    used = {section for stage in GRAPH.values() for section in stage["params"]}
    actions = set(params.SECTIONS) - used
    assert set(params.read(ROOT / "params.yaml")) == set(params.SECTIONS)
    for section in actions:
        assert any(f'load("{section}"' in path.read_text(encoding="utf-8") for path in (ROOT / "tasks").glob("*.py")), (
            section
        )


@pytest.mark.parametrize("stage", GRAPH)
def test_a_stage_depends_on_the_params_its_task_reads(stage: str) -> None:
    read = set(re.findall(r'load\("(\w+)"', module(stage).read_text(encoding="utf-8")))
    assert read <= set(GRAPH[stage]["params"])
