import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.flows.conftest import commit, dvc
from tests.support.imports import ROOT
from tests.support.pipeline import git

FOLDER = ROOT / "infra/ci"
KINDS = {"github": "vendor.github-workflows", "gitlab": "vendor.gitlab-ci"}
GRAPH = """\
stages:
  train:
    cmd: mkdir -p models && cp words.txt models/model
    deps: [words.txt]
    outs: [models/model]
  evaluate:
    cmd: >-
      python -c "import json, yaml; rate = yaml.safe_load(open('params.yaml'))['judge']['rate'];
      json.dump({'wer': rate * len(open('models/model').read())}, open('metrics.json', 'w'))"
    deps: [models/model]
    params: [judge.rate]
    metrics: [metrics.json]
"""
OTHERS = {"make check", 'make .venv/.installed && echo "$PWD/.venv/bin" >> "$GITHUB_PATH"'}
"""Steps that run this project's commands, which other tests run."""


def template(name: str) -> dict[Any, Any]:
    return dict(yaml.safe_load((FOLDER / f"{name}.yaml").read_text(encoding="utf-8")))


@pytest.mark.parametrize("name", KINDS)
def test_the_service_knows_every_field(name: str) -> None:
    schemas = pytest.importorskip("check_jsonschema.builtin_schemas", reason="check-jsonschema is not installed")
    jsonschema = pytest.importorskip("jsonschema")
    schema = schemas.get_builtin_schema(KINDS[name])
    validator = jsonschema.validators.validator_for(schema)(schema)
    document = template(name)
    if True in document:
        document["on"] = document.pop(True)  # YAML 1.1 reads GitHub's key `on` as a boolean
    assert [error.message for error in validator.iter_errors(document)] == []
    jobs = document["jobs"] if name == "github" else document
    jobs["pipeline"]["notAField"] = True
    assert list(validator.iter_errors(document))


def test_github_gives_forks_no_secret_and_jobs_no_right_they_do_not_use() -> None:
    document = template("github")
    assert document["permissions"] == {"contents": "read"}
    assert "head.repo.full_name == github.repository" in document["jobs"]["pipeline"]["if"]
    steps = [step["run"] for job in document["jobs"].values() for step in job["steps"] if "run" in step]
    assert [step for step in steps if "${{" in step] == [], "what a stranger wrote reaches a shell by variables alone"


def steps_of(name: str) -> list[str]:
    """Commands of the job `pipeline` up to the comment."""
    document = template(name)
    if name == "gitlab":
        return list(document["pipeline"]["script"])
    return [
        step["run"] for step in document["jobs"]["pipeline"]["steps"] if step.get("name") != "Comment" and "run" in step
    ]


@pytest.mark.parametrize("name", KINDS)
def test_steps_on_a_pull_request_run_what_it_reaches_and_compare(name: str, tmp_path: Path) -> None:
    root = tmp_path / "upstream"
    root.mkdir()
    git(root, "init", "-q")
    dvc(root, "init", "-q")
    (root / "dvc.yaml").write_text(GRAPH)
    (root / "words.txt").write_text("one two")
    (root / "params.yaml").write_text(json.dumps({"judge": {"rate": 2}}))
    dvc(root, "remote", "add", "-d", "store", str(tmp_path / "store"))
    dvc(root, "repro")
    dvc(root, "push")
    commit(root)
    git(root, "branch", "-M", "main")
    git(root, "checkout", "-qb", "change")
    (root / "params.yaml").write_text(json.dumps({"judge": {"rate": 3}}))
    commit(root)
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", "--branch", "change", str(root), str(clone))
    environment = os.environ | {"BASE": "origin/main"}
    environment["PATH"] = f"{programs(tmp_path)}{os.pathsep}{os.environ['PATH']}"
    steps = "\n".join(step for step in steps_of(name) if step not in OTHERS)
    done = subprocess.run(
        ["bash", "-eo", "pipefail", "-c", steps], cwd=clone, env=environment, capture_output=True, text=True
    )
    ran = done.stdout
    assert done.returncode == 0, ran + done.stderr
    assert "Running stage 'evaluate'" in ran and "Running stage 'train'" not in ran
    comment = (clone / "comment.md").read_text()
    cells = [[cell.strip() for cell in line.split("|")] for line in comment.splitlines()]
    assert any(row[1:6] == ["metrics.json", "wer", "14", "21", "7"] for row in cells), comment
    assert any(row[1:5] == ["params.yaml", "judge.rate", "2", "3"] for row in cells), comment


def programs(folder: Path) -> Path:
    """Folder with the commands `dvc` and `python` of this environment."""
    found = folder / "programs"
    found.mkdir()
    (found / "dvc").write_text(f'#!/bin/sh\nexec {sys.executable} -m dvc "$@"\n')
    (found / "dvc").chmod(0o755)
    (found / "python").symlink_to(sys.executable)
    return found
