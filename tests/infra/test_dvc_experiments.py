"""`dvc exp` and `dvc plots` with this project's own graph and settings, as docs/platform.md tells."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.flows.conftest import dvc
from tests.support.pipeline import ROOT, copy_of_this_project, git

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]

SENTENCES = {"workspace": 12, "fewer": 8}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """This project after a run and an experiment of its first stages, with the corpus of the demo."""
    if shutil.which("flite") is None:
        pytest.skip("flite, which speaks the demo's corpus, is not installed")
    root = copy_of_this_project(tmp_path_factory.mktemp("experiments") / "project")
    git(root, "config", "user.name", "test")
    git(root, "config", "user.email", "test@localhost")
    dvc(root, "exp", "run", "--set-param", f"corpus.sentences={SENTENCES['workspace']}", "--name", "first", "corpus")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "first")
    dvc(root, "exp", "run", "--set-param", f"corpus.sentences={SENTENCES['fewer']}", "--name", "fewer", "corpus")
    return root


def spoken(root: Path) -> int:
    return len(list((root / "data" / "corpus").rglob("*.wav")))


def shown(root: Path) -> dict[str, dict[str, Any]]:
    """Data of each row of `dvc exp show`, by its name."""
    rows = json.loads(dvc(root, "exp", "show", "--json"))
    found = {str(row["name"] or row["rev"]): row["data"] for row in rows}
    for row in rows:
        for experiment in row["experiments"] or []:
            found[str(experiment["name"])] = experiment["revs"][0]["data"]
    return found


def test_an_experiment_keeps_settings_and_outputs_and_is_brought_back(project: Path) -> None:
    rows = shown(project)
    assert {"workspace", "fewer"} <= set(rows)
    assert rows["fewer"]["params"]["params.yaml"]["data"]["corpus"]["sentences"] == SENTENCES["fewer"]
    assert spoken(project) == SENTENCES["fewer"], "an experiment leaves the working tree as it made it"
    git(project, "checkout", "-q", "--", "params.yaml", "dvc.lock")
    dvc(project, "checkout")
    assert spoken(project) == SENTENCES["workspace"]
    dvc(project, "exp", "apply", "fewer")
    assert spoken(project) == SENTENCES["fewer"]
    assert yaml.safe_load((project / "params.yaml").read_text())["corpus"]["sentences"] == SENTENCES["fewer"]


def test_plots_show_the_losses_of_both_models(project: Path) -> None:
    for model, loss in (("predictor", 2.0), ("waveform", 3.0)):
        folder = project / "models" / model
        folder.mkdir(parents=True, exist_ok=True)
        lines = [f"{step},{loss / step},{loss / step + 1}" for step in (1, 2, 4)]
        (folder / "curves.csv").write_text("step,train/loss,validation/loss\n" + "\n".join(lines) + "\n")
    page = project / "plots"
    dvc(project, "plots", "show", "--out", str(page))
    text = (page / "index.html").read_text()
    for word in ("loss, training and validation", "models/predictor/curves.csv", "models/waveform/curves.csv"):
        assert word in text
    assert (ROOT / "dvc.yaml").read_text().count("curves.csv: [train/loss, validation/loss]") == 2
