"""dvc.yaml against the code: a stage that runs code it does not list would not be run again when that code changes."""

import configparser
import re
from pathlib import Path

import pytest
import yaml

from tasks import params
from tasks.code_deps import ROOT, closure, generated

TEXT = (ROOT / "dvc.yaml").read_text(encoding="utf-8")
GRAPH = yaml.safe_load(TEXT)["stages"]


def module(stage: str) -> Path:
    return ROOT / (re.findall(r"python -m ([\w.]+)", GRAPH[stage]["cmd"])[0].replace(".", "/") + ".py")


def test_each_stage_lists_the_code_it_runs() -> None:
    assert generated(TEXT) == TEXT, "run: python -m tasks.code_deps --write"


def test_a_line_that_is_missing_is_written_again_and_a_foreign_one_goes() -> None:
    cut = TEXT.replace("      - sonorant/training\n", "").replace("- tasks/corpus.py\n", "- tasks/gone.py\n")
    assert cut.count("\n") < TEXT.count("\n") - 1 and generated(cut) == TEXT


def test_the_closure_sees_imports_inside_functions() -> None:
    assert ROOT / "sonorant/speech/torch_graphs.py" in closure(ROOT / "tasks/evaluate.py")


def test_every_section_of_params_belongs_to_a_stage_or_an_action() -> None:
    used = {section for stage in GRAPH.values() for section in stage.get("params", [])}
    actions = set(params.sections()) - used
    assert set(params.read(ROOT / "params.yaml")) == set(params.sections())
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
    """Neither git nor the cache had them, so `dvc exp show` and `dvc metrics diff` had nothing to compare with."""
    kept = [each for stage in GRAPH.values() for each in stage.get("metrics", [])]
    assert kept == ["reports/metrics.json"]
