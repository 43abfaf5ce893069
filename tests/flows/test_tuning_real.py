"""A search over the real stages: a worker is killed during a training, another continues from its checkpoint."""

import json
import re
import shutil
import time
from pathlib import Path

import pytest
import yaml

from sonorant.training.run_directory import read_metrics
from tests.support.pipeline import PATIENCE, TINY, Project, by_section, copy_of_this_project, git

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]
for needed in ("dvc", "mlflow", "prefect", "optuna"):
    pytest.importorskip(needed)

LOSS = "train_vocoder/validation/loss"
SEARCH = {
    "study": "real",
    "objectives": {LOSS: "minimize"},
    "also": ["train_vocoder/core_seconds"],
    "space": {"train_vocoder.learning_rate": {"low": 1e-4, "high": 1e-2, "log": True}},
    "trials": 2,
}


def test_a_killed_search_goes_on_from_the_checkpoint_and_its_best_is_applied(tmp_path: Path) -> None:
    if shutil.which("flite") is None:
        pytest.skip("flite, which speaks the demo's corpus, is not installed")
    project = Project(copy_of_this_project(tmp_path / "project"), tmp_path / "cache")
    project.set(**by_section(TINY))
    project.set(train_vocoder={"steps": 60, "checkpoint_every": 10})
    git(project.root, "-c", "user.name=test", "-c", "user.email=test@localhost", "commit", "-qam", "settings")
    (project.root / "search.yaml").write_text(yaml.safe_dump(SEARCH))

    log = tmp_path / "log"
    with log.open("w") as output:
        running = project.start("flows.tune", "run", "search.yaml", output=output)
    while not list(project.root.glob("runs/train_vocoder/*/checkpoints/step-*")):
        assert running.poll() is None, log.read_text()
        time.sleep(0.05)
    for process in project.processes():
        process.kill()  # the machine fails
    running.wait(timeout=PATIENCE)
    [run] = project.root.glob("runs/train_vocoder/*/metrics.jsonl")
    taken = read_metrics(run)[-1]["step"]
    assert taken < 60

    printed = project.run("flows.tune", "run", "search.yaml")
    assert "study 'real': 2 complete, 0 left" in printed and "interrupted, repeated as" in printed
    assert re.search(r"resuming vocoder from its checkpoint at step \d+ of 60", printed)
    assert [line.split("stage ")[1] for line in printed.splitlines() if "Running stage 'features'" in line] == []
    runs = list(project.root.glob("runs/train_vocoder/*/metrics.jsonl"))
    assert len(runs) == 2 and all(read_metrics(path)[-1]["step"] == 60 for path in runs)

    project.run("dvc", "repro", "train_waveform")  # the defaults, which were the first trial, from its cache
    printed = project.run("flows.tune", "apply", "real", "--trial", str(_second(printed)))
    rate = yaml.safe_load((project.root / "params.yaml").read_text())["train_vocoder"]["learning_rate"]
    assert f"train_vocoder.learning_rate: {rate}" in printed
    status = json.loads(project.run("dvc", "status", "--json", "train_waveform"))
    assert set(status) - {"external"} == {"train_waveform"}, status
    again = project.run("dvc", "repro", "train_waveform")
    assert "Stage 'train_waveform' is cached - skipping run" in again


def _second(printed: str) -> int:
    """Number of the trial that did not use the defaults."""
    rows = [line.split() for line in printed.split("Best")[0].splitlines() if re.match(r"\s+\d+ ", line)]
    return next(int(row[0]) for row in rows if "complete" in row and "(the" not in row)
