import configparser
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tasks import params
from tasks.code_deps import ROOT, closure, generated

TEXT = (ROOT / "dvc.yaml").read_text(encoding="utf-8")
GRAPH = yaml.safe_load(TEXT)["stages"]


def module(stage: str) -> Path:
    return ROOT / (re.findall(r"python -m ([\w.]+)", GRAPH[stage]["cmd"])[0].replace(".", "/") + ".py")


def test_dvc_yaml_has_the_sections_of_every_family() -> None:
    assert generated(TEXT) == TEXT, "run: python -m tasks.code_deps --write"
    without = TEXT.replace("params: [voice, training, vocoder,", "params: [voice, training,")
    assert without != TEXT and generated(without) == TEXT


def test_each_stage_depends_on_its_code_and_few_files_more() -> None:
    for stage in GRAPH.keys() - {"external"}:
        code = [dep for dep in GRAPH[stage]["deps"] if dep.startswith(("sonorant", "tasks", "data/external/code"))]
        assert code == [f"data/external/code/{stage}.json"]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    for name in ("sonorant", "tasks"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copyfile(ROOT / "dvc.yaml", folder / "dvc.yaml")
    return folder


def notes(project: Path) -> dict[str, str]:
    command = "from pathlib import Path; from tasks.code_deps import write_notes; write_notes(Path('notes'))"
    done = subprocess.run([sys.executable, "-c", command], cwd=project, capture_output=True, text=True, env=clean())
    assert done.returncode == 0, done.stderr
    return {path.stem: path.read_text() for path in (project / "notes").iterdir()}


def clean() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def test_comments_and_docstrings_run_no_stage_again_and_code_runs_those_that_run_it(project: Path) -> None:
    before = notes(project)
    for file in project.glob("sonorant/*/*.py"):
        text = file.read_text()
        file.write_text(re.sub(r'^(r?)"""', r'\1"""Other words. ', text, count=1) + "# a comment\n")
    assert notes(project) == before
    for name, old, new in (
        ("sonorant/corpus/preparation/checks.py", "max_seconds: Positive = 12.0", "max_seconds: Positive = 13.0"),
        ("sonorant/export/choice.py", "def choose(", "TWO = 2\n\n\ndef choose("),
    ):
        file = project / name
        assert old in file.read_text()
        file.write_text(file.read_text().replace(old, new, 1))
    changed = {stage for stage, note in notes(project).items() if note != before[stage]}
    assert changed == {"prepare", "choose"}, "those that read the default, and those that run the code"


def test_the_closure_sees_imports_inside_functions() -> None:
    """Also inside a function that a method of a family returns."""
    files = closure(ROOT / "tasks/evaluate.py")
    assert {ROOT / "sonorant/speech/torch_graphs.py", ROOT / "sonorant/extras/codec_lm/onnx_runtime.py"} <= files


def test_every_section_of_params_belongs_to_a_stage_or_an_action() -> None:
    used = {section for stage in GRAPH.values() for section in stage.get("params", [])}
    assert used <= set(params.read(ROOT / "params.yaml")), "dvc refuses a stage whose section is absent"
    actions = set(params.sections()) - used
    code = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tasks").glob("*.py"))
    assert [section for section in actions if f'load("{section}"' not in code] == []


@pytest.mark.parametrize("stage", sorted(GRAPH.keys() - {"external"}))
def test_a_stage_depends_on_the_params_its_task_reads(stage: str) -> None:
    read = set(re.findall(r'load\("(\w+)"', module(stage).read_text(encoding="utf-8")))
    assert read <= set(GRAPH[stage]["params"])


def test_the_cache_links_and_copies_only_where_it_cannot() -> None:
    config = configparser.ConfigParser()
    config.read(ROOT / ".dvc" / "config")
    assert config["cache"]["type"].strip('"') == "reflink,hardlink,copy"


def test_figures_of_another_commit_are_in_the_cache() -> None:
    kept = [each for stage in GRAPH.values() for each in stage.get("metrics", [])]
    assert kept == ["reports/figures.json"]
