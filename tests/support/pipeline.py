"""A copy of this project in a folder of its own, to run commands in as a person would."""

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

FROM_OUTSIDE = ("SONORANT_", "PET_", "MLFLOW_", "PREFECT_", "DVC_", "GIT_")  # variables of whoever runs the tests
PATIENCE = 1800.0
"""Seconds after which a command hangs; a whole pipeline on a machine with other work may take a quarter of an hour."""

# A voice that says nothing, but is trained, exported and judged like any other.
TINY: dict[str, Any] = {
    "corpus.sentences": 40,
    "prepare.validation": 0.08,
    "prepare.test": 0.15,
    "recognizer.sentences": 4,
    "evaluate.latency_repeats": 3,
    "evaluate.mos_sentences": 2,
    "evaluate.rare_sentences": 2,
    "evaluate.hear": "all",  # which variant is slower is the machine's business, not the test's
    "verify.int8_size": 1.0,  # so small a model is mostly tables, which stay in float
    "quantize.calibration_utterances": 2,
    "quantize.sensitivity_utterances": 2,
    "quantize.steps": 4,
    "quantize.max_loss": -100.0,  # nothing keeps to it: both models are trained in int8
}
SMALLEST = {
    "vocoder": ("blocks",),
    "acoustic": ("encoder_blocks", "decoder_blocks"),
    "codec": ("encoder_blocks", "decoder_blocks"),
    "language_model": ("encoder_blocks", "layers"),
}
"""Of each model, what there is one of."""
for model, blocks in SMALLEST.items():
    TINY |= {f"{model}.channels": 32, f"{model}.expansion": 2, **{f"{model}.{name}": 1 for name in blocks}}
    TINY |= {f"train_{model}.{name}": value for name, value in {"steps": 30, "warmup_steps": 5, "log_every": 5}.items()}
    TINY |= {f"train_{model}.validate_every": 15, f"train_{model}.checkpoint_every": 10}
    TINY |= {f"train_{model}.precision": "bf16"}  # which is faster is the machine's business, not the test's
TINY |= {"train_vocoder.segments_per_micro_batch": 2, "train_acoustic.frames_per_micro_batch": 700}
TINY |= {"train_codec.segments_per_micro_batch": 2, "train_language_model.frames_per_micro_batch": 700}
TINY |= {"language_model.heads": 2, "language_model.feed_forward": 48}


class Project:
    """A project folder with git, a cache of DVC and an MLflow store of its own."""

    def __init__(self, root: Path, cache: Path) -> None:
        """`root`: a folder that `copy_of_this_project` made. `cache`: DVC's; projects may share one."""
        self.root = root
        (root / ".dvc" / "config.local").write_text(f"[cache]\n    dir = {cache}\n")
        self.store = f"sqlite:///{root}/runs/mlflow.db"

    def set(self, **sections: dict[str, Any]) -> None:
        """Edit params.yaml: `set(evaluate={"rare_sentences": 3})`. A key that is not there is added."""
        file = self.root / "params.yaml"
        yaml = ruamel.yaml.YAML()  # keeps comments, so that the file stays what a person has before him
        yaml.width = 4096
        settings = yaml.load(file)
        for section, values in sections.items():
            settings.setdefault(section, {}).update(values)
        yaml.dump(settings, file)

    def start(self, *words: str, output: IO[str] | int = subprocess.PIPE) -> subprocess.Popen[str]:
        """Start `python -m <words>` in the project; what it prints is in one stream. A file as `output` takes any
        amount of it, a pipe that nobody reads stops the process."""
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
        """Run `python -m <words>` to its end and return what it printed. Fails unless it succeeds."""
        status, printed = self.attempt(*words)
        assert status == 0, printed
        return printed

    def attempt(self, *words: str) -> tuple[int, str]:
        """As `run`, whatever the exit status, which comes first."""
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
        """Parse a file of the project."""
        return json.loads((self.root / name).read_text(encoding="utf-8"), parse_constant=_not_json)

    @property
    def lock(self) -> bytes:
        """dvc.lock; nothing where it is absent."""
        file = self.root / "dvc.lock"
        return file.read_bytes() if file.exists() else b""

    def _environment(self) -> dict[str, str]:
        outside = {name: value for name, value in os.environ.items() if not name.startswith(FROM_OUTSIDE)}
        return outside | {
            TOKEN: str(self.root),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "MLFLOW_TRACKING_URI": self.store,
            "OMP_NUM_THREADS": "1",
            "DO_NOT_TRACK": "1",
            "DVC_NO_ANALYTICS": "1",
        }


def copy_of_this_project(folder: Path) -> Path:
    """Copy what git tracks and what it neither tracks nor ignores into the new `folder`, and commit it there."""
    listed = git(ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
    for name in filter(None, listed):
        if (ROOT / name).is_file():  # not so where it was removed and not yet committed
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "-c", "user.name=test", "-c", "user.email=test@localhost", "commit", "-qm", "copy")
    return folder


def git(root: Path, *arguments: str) -> str:
    """Run git in `root` and return what it printed."""
    return subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True, text=True).stdout


def tiny_project(folder: Path, *stages: str, **sections: dict[str, Any]) -> Path:
    """A copy of this project below `folder`, with settings of a tiny voice and these, after `dvc repro` of `stages`."""
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
