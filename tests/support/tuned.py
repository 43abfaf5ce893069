"""A project like this one whose stages take no time."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from tests.support.imports import ROOT
from tests.support.pipeline import FROM_OUTSIDE, git
from tests.support.processes import TOKEN, start

GRAPH = """\
stages:
  prepare:
    cmd: python stage.py prepare
    deps: [stage.py]
    params: [corpus, prepare]
    outs: [data/prepared]
  features:
    cmd: python stage.py features
    deps: [stage.py, data/prepared]
    params: [audio, features]
    outs: [data/features]
  train_predictor:
    cmd: python stage.py train_predictor
    deps: [stage.py, data/features]
    params: [voice, training, acoustic, train_acoustic]
    outs: [models/predictor]
  evaluate:
    cmd: python stage.py evaluate
    deps: [stage.py, models/predictor]
    params: [evaluate]
    outs: [reports/evaluation]
    metrics: [reports/metrics.json]
"""
# A training counts steps in its run directory, resumes there, and waits before step 3 while runs/hold exists and is
# empty or contains its channels. Its loss is lowest at a learning rate of 1e-3 and 192 channels and depends slightly on
# the seed. Word errors follow a power law of the minutes, of which there are 60.
STAGE = """\
import hashlib, json, math, os, pathlib, sys, time
import yaml
name = sys.argv[1]
settings = yaml.safe_load(open('params.yaml'))
train = settings['training'] | settings['train_acoustic']
path = pathlib.Path
with open('runs/log', 'a') as log:
    log.write(name + '\\n')
if name in ('prepare', 'features'):
    path('data', 'prepared' if name == 'prepare' else name).mkdir(parents=True)
    path('data', 'prepared' if name == 'prepare' else name, 'made').write_text(str(settings['corpus']['sentences']))
if name == 'features':
    import numpy as np
    from sonorant.features.index import Rows, write_index
    frames = round(6000 * min(60, settings['features']['minutes'] or 60))
    two, none = np.arange(2), np.zeros(2, int)
    rows = Rows(['0', '1'], two, none, np.array([frames, 6000]), none + 1, [two], np.zeros((1, 4, 32), np.uint8))
    header = {'audio': {'hop': 160, 'sample_rate': 16000}, 'splits': ['train', 'test'], 'minutes': frames / 6000}
    header['index'] = write_index(path('data/features'), rows)
    path('data/features/header.json').write_text(json.dumps(header))
if name == 'train_predictor':
    channels = settings['acoustic']['channels']
    if channels == 13:
        sys.exit('error: training has diverged')
    sizes = json.dumps([train, channels, [path('data/features', file).read_text() for file in ('made', 'header.json')]])
    run = path('runs/train_acoustic', hashlib.sha256(sizes.encode()).hexdigest()[:16])
    run.mkdir(parents=True, exist_ok=True)
    (run / 'tracking.json').write_text(json.dumps({'spec': {'execution': os.environ.get('SONORANT_EXECUTION')}}))
    metrics = run / 'metrics.jsonl'
    rows = [json.loads(line) for line in metrics.read_text().splitlines()] if metrics.exists() else []
    for step in range(len(rows) + 1, train['steps'] + 1):
        hold = path('runs/hold')
        while step == 3 and hold.exists() and hold.read_text() in ('', str(channels)):
            path('runs/held').touch()
            time.sleep(0.05)
        off = abs(math.log10(train['learning_rate'] / 1e-3)) + abs(channels - 192) / 192
        loss = off + 1 / step + 0.01 * (train['seed'] % 7)
        row = {'validation/loss': loss, 'speed/core_seconds_per_step': 0.5}
        with metrics.open('a') as file:
            file.write(json.dumps({'step': step, 'time': time.time(), 'metrics': row}) + '\\n')
        with open('runs/steps', 'a') as log:
            log.write(run.name + '\\n')
    model = path('models/predictor')
    model.mkdir(parents=True)
    (model / 'model.json').write_text(json.dumps({'provenance': {'fingerprint': run.name}}))
    rows = [json.loads(line) for line in metrics.read_text().splitlines()]
    lines = [f"{row['step']},{row['metrics']['validation/loss']:.6g}" for row in rows]
    (model / 'curves.csv').write_text('\\n'.join(['step,validation/loss', *lines]) + '\\n')
if name == 'evaluate':
    loss = float(path('models/predictor/curves.csv').read_text().split(',')[-1])
    path('reports/evaluation').mkdir(parents=True)
    path('reports/evaluation/made').write_text(str(loss))
    dnsmos = {'ovrl': 4 - loss, 'ovrl_ci95': [3.9 - loss, 4.1 - loss]}
    found = {'naturalness': {'fp32': {'dnsmos': dnsmos}, 'fp16': 'slower than fp32'}}
    found['speed'] = {'onnxruntime/fp32.medium': {'rtf': settings['acoustic']['channels'] / 1e5}}
    minutes = json.loads(path('data/features/header.json').read_text())['minutes']
    wer = 2 + 12 * minutes ** -0.5 + 0.01 * (train['seed'] % 7)
    found['intelligibility'] = {'fp32': {'above_recordings': {'wer': wer, 'wer_ci95': [wer - 1, wer + 1]}}}
    found['naturalness']['fp32']['dnsmos_below_recordings'] = 'not run: not installed'
    rows = [{'words': 10, 'word_errors': {'recordings': 0, 'fp32': wer / 10}, 'dnsmos': {}}] * 12
    path('reports/evaluation/sentences.jsonl').write_text(''.join(json.dumps(row) + '\\n' for row in rows))
    path('reports/metrics.json').write_text(json.dumps(found))
"""
LOSS = "train_acoustic/validation/loss"
SEARCH: dict[str, Any] = {
    "study": "tiny",
    "objectives": {LOSS: "minimize"},
    "space": {
        "train_acoustic.learning_rate": {"low": 1e-5, "high": 1e-1, "log": True},
        "acoustic.channels": {"low": 96, "high": 288, "step": 32},
    },
    "fixed": {"train_acoustic.steps": 6},
    "trials": 3,
}


class TunedProject:
    """A project folder with git and DVC, the commands of `sonorant tune`, and what its stages did."""

    def __init__(self, root: Path, tracked: Path, server: str) -> None:
        """`tracked`: a project whose MLflow store has its tables; `server`: address of a Prefect server."""
        shutil.copytree(tracked, root)
        self.root, self.server = root, server
        (root / "dvc.yaml").write_text(GRAPH)
        (root / "stage.py").write_text(STAGE)
        (root / "params.yaml").write_text((ROOT / "params.yaml").read_text(encoding="utf-8"), encoding="utf-8")
        (root / ".gitignore").write_text("/runs/\n/data/\n/models/\n/reports/\n")
        (root / ".dvcignore").write_text("runs\n")
        git(root, "init", "-q")
        git(root, "config", "user.name", "test")
        git(root, "config", "user.email", "test@localhost")
        self.run("dvc", "init", "-q")
        git(root, "add", "-A")
        git(root, "commit", "-qm", "all")

    def search(self, **changes: Any) -> str:
        """Write `SEARCH` with these changes (None removes a key) and return the file's name."""
        data = {name: value for name, value in (SEARCH | changes).items() if value is not None}
        (self.root / "search.yaml").write_text(yaml.safe_dump(data))
        return "search.yaml"

    def start(self, *words: str, **environment: str) -> subprocess.Popen[str]:
        """Start `python -m <words>` in the project, with one stream of output."""
        outside = {name: value for name, value in os.environ.items() if not name.startswith(FROM_OUTSIDE)}
        own = {
            TOKEN: str(self.root),
            "PYTHONPATH": str(ROOT),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "SONORANT_TUNING_HEARTBEAT": "10",
            "PREFECT_API_URL": self.server,
        }
        pipes: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        command = [sys.executable, "-m", *words]
        return start(command, cwd=self.root, env=outside | own | environment, text=True, errors="replace", **pipes)

    @staticmethod
    def wait(running: subprocess.Popen[str], condition: Callable[[], object]) -> None:
        """Wait for the condition; fail if the command exits first."""
        while not condition():
            if running.poll() is not None:
                raise AssertionError(running.communicate()[0])
            time.sleep(0.05)

    def attempt(self, *words: str, **environment: str) -> tuple[int, str]:
        """Run `python -m <words>`; return its status and output."""
        process = self.start(*words, **environment)
        printed, _ = process.communicate()
        return process.returncode, printed

    def run(self, *words: str, **environment: str) -> str:
        """Run `python -m <words>` successfully; return its output."""
        status, printed = self.attempt(*words, **environment)
        assert status == 0, printed
        return printed

    def stages(self) -> list[str]:
        """The stages that ran, in order."""
        log = self.root / "runs" / "log"
        return log.read_text().split() if log.exists() else []

    def steps(self) -> list[str]:
        """The run directory of each training step."""
        log = self.root / "runs" / "steps"
        return log.read_text().split() if log.exists() else []
