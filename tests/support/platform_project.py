"""A small project for the platform: it trains briefly and exports a voice that passes the gates."""

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

from tests.flows.conftest import dvc
from tests.registry.planted import GATES, figures, more_errors, of_bundle, write_report
from tests.support.imports import ROOT
from tests.support.pipeline import git

MODEL = "platform-voice"
GRAPH = """\
stages:
  train_predictor:
    cmd: python trainer.py
    params: [train_acoustic]
    outs: [models/predictor]
  export:
    cmd: mkdir -p artifacts && cp -r corpora/voice artifacts/voice
    deps: [corpora/voice, models/predictor]
    outs: [artifacts/voice]
  evaluate:
    cmd:
      - mkdir -p reports && cp corpora/metrics.json reports && cp -r corpora/evaluation reports/evaluation
      - echo '<!doctype html><title>page</title>' > reports/index.html
    deps: [artifacts/voice, corpora/metrics.json, corpora/evaluation]
    outs: [reports/evaluation, reports/index.html]
    metrics: [reports/metrics.json]
"""
TRAINER = '''\
"""A training with a run in MLflow: a step is a line in metrics.jsonl, and none is done twice."""

import json
import time
from pathlib import Path

import yaml

from sonorant.registry.tracking import stage_run

settings = yaml.safe_load(Path("params.yaml").read_text())["train_acoustic"]
steps = settings["steps"]
Path("models/predictor").mkdir(parents=True, exist_ok=True)
run = Path("runs/train_acoustic") / str(steps)
run.mkdir(parents=True, exist_ok=True)
with stage_run("train_acoustic", {}, run_directory=run, tags={}):
    with (run / "metrics.jsonl").open("a+") as file:
        file.seek(0)
        done = len(file.readlines())
        print(f"from step {done + 1}", flush=True)
        for step in range(done + 1, steps + 1):
            file.write(json.dumps({"step": step, "time": time.time(), "metrics": {"train/loss": 1 / step}}) + "\\n")
            file.flush()
            time.sleep(0.2 if steps > 400 else 0)  # so that a server can die long before the end
            if step % 20 == 0:
                print(f"step {step}", flush=True)
Path("models/predictor/steps").write_text(str(steps))
'''
SETTINGS: dict[str, Any] = {
    "train_acoustic": {"steps": 20},
    "register": {"model": MODEL},
    "promote": dataclasses.asdict(GATES),
}


def write_project(root: Path, voice: Path) -> None:
    """Write the project, which exports `voice`, to `root`."""
    for package in ("flows", "tasks", "sonorant", "infra"):
        shutil.copytree(ROOT / package, root / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "prefect.yaml", root)
    shutil.copytree(voice, root / "corpora" / "voice")
    (root / "corpora" / "metrics.json").write_text(json.dumps(of_bundle(voice, figures(more_errors(0.6)))))
    write_report(root / "corpora", more_errors(0.6))
    (root / "dvc.yaml").write_text(GRAPH)
    (root / "trainer.py").write_text(TRAINER)
    (root / "params.yaml").write_text(json.dumps(SETTINGS))
    (root / ".gitignore").write_text("/runs/\n/models/\n/artifacts/\n/reports/\n__pycache__/\n")
    (root / "runs").mkdir()
    git(root, "init", "-q")
    dvc(root, "init", "-q")
    git(root, "add", "-A")
    git(root, "-c", "user.name=test", "-c", "user.email=test@localhost", "commit", "-qm", "project")
