"""Recordings to prepare, and the stage `prepare` as a separate process, which can be stopped and watched."""

import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

from sonorant.corpus.manifest import Utterance, write_manifest
from sonorant.processes import SCHEDULER
from tests.support.cluster import outside
from tests.support.folders import contents
from tests.support.imports import ROOT

RATE = 16_000
WORDS = [
    "green",
    "apples",
    "like",
    "better",
    "many",
    "people",
    "small",
    "yellow",
    "plums",
    "because",
    "good",
    "fruit",
    "needs",
    "much",
    "sun",
]


def write_recordings(project: Path, count: int, seconds: float = 2.0) -> None:
    """Write a corpus of noises that swell and fade, each with its own text; every tenth file is broken or missing."""
    random = np.random.default_rng(0)
    time = np.arange(round(seconds * RATE)) / RATE
    swell = 0.1 + 0.1 * np.sin(time * 2 * np.pi * 3)
    folder = project / "corpus"
    folder.mkdir(parents=True)
    rows = []
    for number in range(count):
        samples = random.uniform(-1, 1, len(time)) * swell
        if number % 20 != 9:
            soundfile.write(folder / f"{number}.wav", samples, RATE)
        if number % 20 == 19:
            (folder / f"{number}.wav").write_bytes(b"no sound")
        text = " ".join(random.choice(WORDS, 5, replace=False)) + "."
        row: dict[str, Any] = {"audio": f"{number}.wav", "text": text, "speaker": f"s{number % 3}", "language": "en-us"}
        rows.append(Utterance(id=f"u{number}", **row))
    write_manifest(folder / "manifest.jsonl", rows)
    params = (ROOT / "params.yaml").read_text()
    assert "max_rejected: 0.05" in params
    (project / "params.yaml").write_text(
        params.replace("max_rejected: 0.05", "max_rejected: 0.2").replace("validation: 0.02", "validation: 0.2")
    )


def start_prepare(project: Path, scheduler: str | None, out: str = "prepared") -> subprocess.Popen[str]:
    """Start the stage in its project; without a scheduler, on this machine's processes."""
    command = [sys.executable, "-m", "tasks.prepare", "--corpus", "corpus", "--cache", "cache", "--out", out]
    environment = outside(os.environ) | {"PYTHONPATH": str(ROOT), **({SCHEDULER: scheduler} if scheduler else {})}
    return subprocess.Popen(command, cwd=project, env=environment, stderr=subprocess.PIPE, text=True)


def finish(stage: subprocess.Popen[str]) -> str:
    """Output of a stage, which must have succeeded."""
    said = stage.communicate()[1]
    assert stage.returncode == 0, said
    return said


def prepare_alone(project: Path) -> dict[str, bytes]:
    """Output of the stage with one process and no cache."""
    program = (
        "import sys; from pathlib import Path; import sonorant.processes, sonorant.corpus.cache;"
        "sonorant.corpus.cache.usable_cores = lambda: 1;"
        "sys.argv = ['prepare', '--corpus', 'corpus', '--out', 'alone'];"
        "from tasks.prepare import main; main()"
    )
    environment = outside(os.environ) | {"PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", program], cwd=project, env=environment, check=True, capture_output=True)
    return written(project, "alone")


def written(project: Path, out: str = "prepared") -> dict[str, bytes]:
    return contents(project / out)


def cached(project: Path) -> int:
    """Number of results that the stage has cached so far."""
    file = project / "cache/cache.db"
    if not file.exists():
        return 0
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as database:
        tables = database.execute("SELECT name FROM sqlite_master WHERE name = 'Cache'").fetchall()
        return database.execute("SELECT COUNT(*) FROM Cache").fetchone()[0] if tables else 0


def fresh(project: Path) -> None:
    for name in ("cache", "prepared"):
        shutil.rmtree(project / name, ignore_errors=True)
