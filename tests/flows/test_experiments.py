"""`dvc exp run` and `dvc exp show` with figures that lie in DVC's cache, as this graph's do."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.flows.conftest import commit, dvc

pytestmark = pytest.mark.long

GRAPH = """\
stages:
  evaluate:
    cmd: python evaluate.py
    deps: [evaluate.py]
    params: [words.lost]
    metrics: [reports/metrics.json]
"""
EVALUATE = """\
import json
from pathlib import Path
import yaml
Path("reports").mkdir(exist_ok=True)
Path("reports/metrics.json").write_text(json.dumps({"wer": yaml.safe_load(open("params.yaml"))["words"]["lost"]}))
"""


def test_an_experiment_stands_beside_the_commit_that_it_began_from(make_project: Callable[..., Path]) -> None:
    root = make_project("project", GRAPH)
    (root / "params.yaml").write_text("words: {lost: 4}\n")
    (root / "evaluate.py").write_text(EVALUATE)
    (root / ".gitignore").write_text("/reports/\n/runs/\n")
    dvc(root, "repro")
    commit(root)
    dvc(root, "exp", "run", "-n", "fewer", "-S", "words.lost=3")
    revisions = json.loads(dvc(root, "exp", "show", "--json"))
    [head] = [row for row in revisions if row["rev"] != "workspace"]
    [experiment] = head["experiments"]
    figures = [each["data"]["metrics"]["reports/metrics.json"]["data"] for each in (head, experiment["revs"][0])]
    assert figures == [{"wer": 4}, {"wer": 3}]
    difference = json.loads(dvc(root, "metrics", "diff", "HEAD", "--json"))
    assert difference["reports/metrics.json"]["wer"]["diff"] == -1
