"""The stages of the judgement as commands, as dvc.yaml runs them. Knows nothing of what the tests demand of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import yaml

from tests.support.imports import ROOT

RECOGNIZE = ("--corpus", ".", "--prepared", "prepared", "--out", "recordings.json")
EVALUATE = (
    "--corpus", ".", "--prepared", "prepared", "--recordings", "recordings.json", "--voice", "voice", "--predictor", "acoustic",
    "--waveform", "vocoder", "--codes", "codes", "--parity", "parity.json", "--family", "family", "--metrics", "metrics.json",
    "--out", "evaluation",
)  # fmt: skip


def run_stage(place: Path, stage: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a stage's command in a folder with its own params.yaml."""
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", f"tasks.{stage}", *arguments]
    return subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, timeout=300)


def write_settings(folder: Path) -> None:
    """params.yaml of the project, for few sentences."""
    params = yaml.safe_load((ROOT / "params.yaml").read_text(encoding="utf-8"))
    params["recognizer"] = {"name": "pocketsphinx", "sentences": 160}
    params["evaluate"] = {"bootstrap": 100, "latency_repeats": 3, "mos_sentences": 2}
    (folder / "params.yaml").write_text(yaml.safe_dump(params), encoding="utf-8")
