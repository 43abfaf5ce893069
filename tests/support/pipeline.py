"""A copy of this project in a separate folder, for running commands as a user would."""

import json
import os
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import psutil
import ruamel.yaml

from tests.support.imports import ROOT
from tests.support.processes import TOKEN, processes_of

FROM_OUTSIDE = ("SONORANT_", "PET_", "MLFLOW_", "PREFECT_", "DVC_", "GIT_")  # variables of the user who runs the tests
PATIENCE = 1800.0
"""Seconds after which a command counts as hanging; a whole pipeline on a busy machine may take a quarter of an hour."""

# A voice that says nothing intelligible, but is trained, exported and evaluated like any other.
TINY: dict[str, Any] = {
    "corpus.sentences": 40,
    "prepare.validation": 0.08,
    "prepare.test": 0.15,
    "recognizer.sentences": 4,
    "evaluate.latency_repeats": 3,
    "evaluate.mos_sentences": 2,
    "evaluate.rare_sentences": 2,
    "evaluate.hear": "all",  # relative speed depends on the machine
    "verify.int8_size": 1.0,  # so small a model is mostly tables, which stay in float
    "quantize.calibration_utterances": 2,
    "quantize.sensitivity_utterances": 2,
    "quantize.steps": 4,
    "quantize.max_loss": -100.0,  # nothing satisfies it, so both models are trained in int8
}
SMALLEST = {
    "vocoder": ("blocks",),
    "acoustic": ("encoder_blocks", "decoder_blocks"),
    "codec": ("encoder_blocks", "decoder_blocks"),
    "language_model": ("encoder_blocks", "layers"),
}
"""Settings that are 1, by model."""
for model, blocks in SMALLEST.items():
    TINY |= {f"{model}.channels": 32, f"{model}.expansion": 2, **{f"{model}.{name}": 1 for name in blocks}}
    TINY |= {f"train_{model}.{name}": value for name, value in {"steps": 30, "warmup_steps": 5, "log_every": 5}.items()}
    TINY |= {f"train_{model}.validate_every": 15, f"train_{model}.checkpoint_every": 10}
    TINY |= {f"train_{model}.precision": "bf16"}  # relative speed depends on the machine
TINY |= {"train_vocoder.segments_per_micro_batch": 2, "train_acoustic.frames_per_micro_batch": 700}
TINY |= {"train_codec.segments_per_micro_batch": 2, "train_language_model.frames_per_micro_batch": 700}
TINY |= {"language_model.heads": 2, "language_model.feed_forward": 48}


class Project:
    """A project folder with git, a DVC cache and an MLflow store."""

    def __init__(self, root: Path, cache: Path) -> None:
        """`root`: a folder made by `copy_of_this_project`. `cache`: DVC's, which projects may share."""
        self.root = root
        (root / ".dvc" / "config.local").write_text(f"[cache]\n    dir = {cache}\n")
        self.store = f"sqlite:///{root}/runs/mlflow.db"

    def set(self, **sections: dict[str, Any]) -> None:
        """Edit params.yaml: `set(evaluate={"rare_sentences": 3})`. Missing keys are added."""
        file = self.root / "params.yaml"
        yaml = ruamel.yaml.YAML()  # keeps comments, as in a user's file
        yaml.width = 4096
        settings = yaml.load(file)
        for section, values in sections.items():
            settings.setdefault(section, {}).update(values)
        yaml.dump(settings, file)

    def start(self, *words: str, output: IO[str] | int = subprocess.PIPE) -> subprocess.Popen[str]:
        """Start `python -m <words>` in the project, with one stream of output.

        Large output needs a file: a process blocks on a pipe that nobody reads.
        """
        return subprocess.Popen(
            [sys.executable, "-m", *words],
            cwd=self.root,
            env=self._environment(),
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )

    def run(self, *words: str) -> str:
        """Run `python -m <words>` and return its output. Fails unless it succeeds."""
        status, printed = self.attempt(*words)
        assert status == 0, printed
        return printed

    def attempt(self, *words: str) -> tuple[int, str]:
        """As `run`, with any exit status, which is returned first."""
        process = self.start(*words)
        try:
            printed, _ = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            for started in self.processes():
                with suppress(psutil.Error):
                    started.kill()
            raise
        return process.returncode, printed

    def processes(self) -> list[psutil.Process]:
        """All living processes that were started here."""
        return processes_of(self.root)

    def json(self, name: str) -> Any:
        """Parse a JSON file of the project."""
        return json.loads((self.root / name).read_text(encoding="utf-8"), parse_constant=_not_json)

    @property
    def lock(self) -> bytes:
        """Content of dvc.lock, empty if absent."""
        file = self.root / "dvc.lock"
        return file.read_bytes() if file.exists() else b""

    def _environment(self) -> dict[str, str]:
        outside = {name: value for name, value in os.environ.items() if not name.startswith(FROM_OUTSIDE)}
        return outside | {
            TOKEN: str(self.root),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "MLFLOW_TRACKING_URI": self.store,
            "OMP_NUM_THREADS": "1",
        }


def copy_of_this_project(folder: Path) -> Path:
    """Copy the files that git tracks or does not ignore into the new `folder`, and commit them there."""
    listed = git(ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
    for name in filter(None, listed):
        if (ROOT / name).is_file():  # false for a removed file before the commit
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "-c", "user.name=test", "-c", "user.email=test@localhost", "commit", "-qm", "copy")
    return folder


def git(root: Path, *arguments: str) -> str:
    """Run git in `root` and return its output."""
    return subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True, text=True).stdout


def tiny_project(folder: Path, *stages: str, **sections: dict[str, Any]) -> Path:
    """A copy of this project below `folder`, with settings of a tiny voice and `sections`, after `dvc repro` of
    `stages`."""
    project = Project(copy_of_this_project(folder / "project"), folder / "cache")
    project.set(**by_section(TINY))
    project.set(**sections)
    project.run("dvc", "repro", *stages)
    return project.root


def by_section(settings: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """{"evaluate.rare_sentences": 3} -> {"evaluate": {"rare_sentences": 3}}."""
    sections: dict[str, dict[str, Any]] = {}
    for key, value in settings.items():
        section, name = key.split(".")
        sections.setdefault(section, {})[name] = value
    return sections


def _not_json(word: str) -> float:
    raise AssertionError(f"{word} is no JSON number")
