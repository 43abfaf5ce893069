"""A training that was interrupted ends with the bits of one that was not."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch

from sonorant.errors import SonorantError
from sonorant.training import checkpoint
from sonorant.training.distributed.launch import environment
from sonorant.training.distributed.ranks import Ranks
from sonorant.training.run_directory import RunDirectory, read_metrics
from sonorant.training.trainer import Trainer
from sonorant.training.worker import Job
from tests.support.imports import ROOT
from tests.support.tiny_training import tiny_recipe
from tests.support.waiting import PATIENCE, wait_until
from tests.training.conftest import settings
from tests.training.trainings import ranks_of

ALONE = Ranks(0, 1, 0, torch.device("cpu"))
CASES: list[tuple[str, dict[str, Any]]] = [
    ("acoustic", {}),
    ("acoustic", {"decoder": "flow"}),
    ("acoustic", {"precision": "bf16"}),
    ("vocoder", {}),
    ("vocoder", {"adversarial": True}),
    ("codec", {"precision": "bf16"}),
    ("codec", {"adversarial": True}),
    ("language_model", {"prompt_frames": 5}),
    ("language_model", {"precision": "bf16", "text": "both", "attention": "sliding"}),
]


def trainer(kind: str, changes: dict[str, Any], features: Path, run: Path, fingerprint: str = "f") -> Trainer:
    return Trainer(tiny_recipe(kind, features, **changes), ALONE, RunDirectory(run), fingerprint)


def assert_same(first: Any, second: Any, where: str = "") -> None:
    if isinstance(first, torch.Tensor):
        assert torch.equal(first, second), where
    elif isinstance(first, dict):
        assert first.keys() == second.keys(), where
        for key in first:
            assert_same(first[key], second[key], f"{where}.{key}")
    else:
        assert first == second, where


@pytest.mark.parametrize(("kind", "changes"), CASES)
def test_resumed_equals_uninterrupted(
    kind: str, changes: dict[str, Any], features: Path, tmp_path: Path, alone: None
) -> None:
    run = tmp_path / "whole"
    RunDirectory(run).path.mkdir()
    whole = trainer(kind, changes, features, run)
    assert whole.train() == "finished"

    cut = Path(shutil.copytree(run, tmp_path / "cut"))
    for path in checkpoint.existing(cut / "checkpoints"):
        if path != checkpoint.path_of(cut / "checkpoints", 6):
            path.unlink()  # as if it had died after step 6: log and best are from beyond
    resumed = trainer(kind, changes, features, cut)
    resumed.resume()
    assert resumed.step == 6
    assert resumed.train() == "finished"
    assert_same(whole.state(), resumed.state())
    rows = read_metrics(cut / "metrics.jsonl")
    logged = [(row["step"], name) for row in rows for name in row["metrics"]]
    assert len(logged) == len(set(logged)), "a metric of a step was logged twice"


@pytest.mark.parametrize(
    ("kind", "loss"),
    [("acoustic", "mel"), ("codec", "mel"), ("language_model", "codes"), ("language_model", "advance")],
)
def test_training_learns(kind: str, loss: str, features: Path, tmp_path: Path, alone: None) -> None:
    """Not part of resuming, but without it equality could be that of two trainings that do nothing."""
    (tmp_path / "run").mkdir()
    trainer(kind, {"steps": 40, "validate_every": 40, "checkpoint_every": 40}, features, tmp_path / "run").train()
    rows = [row["metrics"] for row in read_metrics(tmp_path / "run" / "metrics.jsonl")]
    losses = [row[f"train/{loss}"] for row in rows if f"train/{loss}" in row]
    assert sum(losses[-5:]) < 0.8 * sum(losses[:5])


def flip(data: bytes) -> bytes:
    return data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 1]) + data[len(data) // 2 + 1 :]


def cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def nothing(data: bytes) -> bytes:
    return b""


@pytest.mark.parametrize("damage", [flip, cut, nothing])
def test_a_damaged_newest_checkpoint_is_named_and_the_one_before_it_used(
    damage: Callable[[bytes], bytes], features: Path, tmp_path: Path, alone: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """And the end is the same to the bit."""
    (tmp_path / "run").mkdir()
    whole = trainer("acoustic", {}, features, tmp_path / "run")
    whole.train()
    newest = checkpoint.existing(tmp_path / "run" / "checkpoints")[0]
    newest.write_bytes(damage(newest.read_bytes()))
    again = trainer("acoustic", {}, features, tmp_path / "run")
    assert again.train() == "finished"
    said = capsys.readouterr().out
    assert f"{newest} is damaged" in said and "at step 6 of 8" in said
    assert_same(whole.state(), again.state())
    assert checkpoint.load(newest)["step"] == 8


def test_where_no_checkpoint_is_whole_nothing_is_trained_over_them(features: Path, tmp_path: Path, alone: None) -> None:
    (tmp_path / "run").mkdir()
    trainer("acoustic", {}, features, tmp_path / "run").train()
    for path in checkpoint.existing(tmp_path / "run" / "checkpoints"):
        path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(SonorantError, match="none of the 2 checkpoints is whole"):
        trainer("acoustic", {}, features, tmp_path / "run").train()


def test_a_checkpoint_of_other_settings_is_refused(features: Path, tmp_path: Path, alone: None) -> None:
    (tmp_path / "run").mkdir()
    trainer("acoustic", {}, features, tmp_path / "run").train()
    with pytest.raises(SonorantError, match="other settings"):
        trainer("acoustic", {}, features, tmp_path / "run", fingerprint="g").resume()


def start(
    features: Path, folder: Path, processes: int, workers: int = 0, held_at: int | None = None, **changes: Any
) -> subprocess.Popen[str]:
    """`held_at`: see tests/training/held_worker.py."""
    model, train = settings("acoustic", **changes)
    folder.mkdir(exist_ok=True)
    job = Job(recipe="acoustic", model=model, train=train, features=str(features), run=str(folder / "run"),
    out=str(folder / "model"),
              fingerprint="f", provenance={}, data={"workers": workers})  # fmt: skip
    job.write(folder / "job.json")
    env = environment({**os.environ, "PET_NPROC_PER_NODE": str(processes)}, train["micro_batches_per_step"])
    worker = "sonorant.training.worker"
    if held_at is not None:
        worker, env["HELD_AT"] = "tests.training.held_worker", str(held_at)
    command = [sys.executable, "-m", "sonorant.training.distributed.agent", "-m", worker, str(folder / "job.json")]
    return subprocess.Popen(
        command, cwd=ROOT, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    )


def finish(process: subprocess.Popen[str]) -> str:
    output, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, output
    return output


def last_state(folder: Path) -> dict[str, Any]:
    state = checkpoint.load(checkpoint.existing(folder / "run" / "checkpoints")[0])
    state.pop("world_size")
    return state


@pytest.mark.long
def test_sigkill_of_all_processes_loses_nothing_on_two_ranks(features: Path, tmp_path: Path) -> None:
    long = {"steps": 60, "validate_every": 60, "checkpoint_every": 5}
    finish(start(features, tmp_path / "whole", 2, **long))
    process = start(features, tmp_path / "cut", 2, held_at=50, **long)
    wait_until(lambda: checkpoint.existing(tmp_path / "cut" / "run" / "checkpoints") or process.poll() is not None)
    # The ranks first: each has a session of its own, and would be told to save and stop when torchrun dies.
    for killed in (*ranks_of(process).values(), psutil.Process(process.pid)):
        killed.kill()
    process.communicate(timeout=PATIENCE)
    assert RunDirectory(tmp_path / "cut" / "run").status()["state"] == "running", "it had time to say that it stops"
    assert "resuming acoustic from its checkpoint" in finish(start(features, tmp_path / "cut", 2, **long))
    assert_same(last_state(tmp_path / "whole"), last_state(tmp_path / "cut"))


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.long)])
def test_sigterm_saves_and_the_next_start_goes_on(workers: int, features: Path, tmp_path: Path) -> None:
    """With loader processes too: torchrun sends SIGTERM to all processes of a rank."""
    long = {"steps": 100_000, "validate_every": 100_000, "checkpoint_every": 100_000}  # so that it comes before the end
    process = start(features, tmp_path / "run", 1, workers, **long)
    metrics = tmp_path / "run" / "run" / "metrics.jsonl"
    wait_until(lambda: read_metrics(metrics) or process.poll() is not None)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE)
    status = json.loads((tmp_path / "run" / "run" / "status.json").read_text())
    assert status["state"] == "stopped"
    assert status["step"] > 0
    assert checkpoint.load(checkpoint.existing(tmp_path / "run" / "run" / "checkpoints")[0])["step"] == status["step"]


def test_two_processes_follow_the_curve_of_one(features: Path, tmp_path: Path) -> None:
    curves = []
    for processes in (1, 2):
        finish(start(features, tmp_path / str(processes), processes, steps=20, validate_every=20, checkpoint_every=20))
        rows = read_metrics(tmp_path / str(processes) / "run" / "metrics.jsonl")
        curves.append(torch.tensor([row["metrics"]["train/loss"] for row in rows if "train/loss" in row["metrics"]]))
    torch.testing.assert_close(curves[0], curves[1], rtol=2e-4, atol=2e-5)
    assert len(curves[0]) == 20
