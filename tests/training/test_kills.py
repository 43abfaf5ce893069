"""Trainings killed at random steps end bit-identical to undisturbed ones.

Kills hit all processes, one rank, or a write of a checkpoint; each training is also stopped once with SIGTERM.
`SONORANT_KILLS=20` kills each training twenty times.
"""

import os
import random
import subprocess
import time
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest
import torch

from sonorant.training import checkpoint
from sonorant.training.distributed.launch import SHUTDOWN_SECONDS
from sonorant.training.run_directory import read_metrics
from tests.support.trainings import Training, ranks_of
from tests.support.waiting import PATIENCE
from tests.training.trainings import assert_same, into_a_bucket, newest_state

STEPS_PER_KILL = 10
KILLS = int(os.environ.get("SONORANT_KILLS", "3"))
KINDS = ("all processes", "one rank", "inside a write")


class Case(NamedTuple):
    kind: str
    processes: int
    changes: dict[str, Any]
    bucket: bool = False


CASES = [
    Case("acoustic", 1, {"precision": "fp32"}),
    Case("vocoder", 1, {"precision": "bf16", "adversarial": True}),
    Case("acoustic", 2, {"precision": "fp32", "decoder": "flow"}),
    Case("codec", 2, {"precision": "bf16"}),
    Case("language_model", 1, {"precision": "fp32", "prompt_frames": 4}),
    Case("acoustic", 2, {"precision": "bf16", "window_shards": 2}, bucket=True),
    Case("language_model", 1, {"precision": "bf16", "window_shards": 2}, bucket=True),
]


def training_of(case: Case, features: Path, folder: Path) -> Training:
    every = {"checkpoint_every": 4, "validate_every": 15, "log_every": 1}
    return Training(case.kind, features, folder, **case.changes, steps=STEPS_PER_KILL * (KILLS + 2), **every)


def start_until(training: Training, processes: int, step: int, **variables: str) -> subprocess.Popen[bytes]:
    """Start or resume; return when `step` is logged."""
    agent = training.start(processes, **variables)
    training.wait_for(lambda: max(losses_of(training), default=0) >= step, agent)
    return agent


def losses_of(training: Training) -> dict[int, float]:
    """Loss by step; no step is logged twice."""
    rows = [row for row in read_metrics(training.run.metrics) if "train/loss" in row["metrics"]]
    losses = {row["step"]: row["metrics"]["train/loss"] for row in rows}
    assert len(losses) == len(rows)
    return losses


def kill(training: Training, processes: int, kind: str, step: int, dice: random.Random) -> None:
    """Kill the training after `step` and wait for all processes."""

    def unfinished_write() -> bool:
        return any(training.run.checkpoints.glob(".*.ckpt.*.tmp"))

    inside = kind == "inside a write"
    agent = start_until(training, processes, step, **({"DISTURBED": "slow_disk"} if inside else {}))
    ranks = ranks_of(agent)
    deadline = time.monotonic() + PATIENCE
    while inside and not unfinished_write() and time.monotonic() < deadline:
        time.sleep(0.002)
    time.sleep(dice.uniform(0, 0.1))
    for number in [dice.choice(sorted(ranks))] if kind == "one rank" else ranks:
        ranks[number].kill()  # before torchrun, whose exit would let them save
    if kind == "all processes":
        agent.kill()
    assert not inside or unfinished_write(), "the kill missed its moment"
    agent.wait(PATIENCE)
    psutil.wait_procs(list(ranks.values()), PATIENCE)


def stop(training: Training, processes: int, step: int) -> None:
    """Stop with SIGTERM after `step`; no step is lost."""
    agent = start_until(training, processes, step)
    start = time.monotonic()
    agent.terminate()
    agent.wait(PATIENCE)
    assert time.monotonic() - start < SHUTDOWN_SECONDS
    assert training.run.status()["state"] == "stopped"
    assert newest_state(training.run.path)["step"] == max(losses_of(training))


@pytest.mark.long
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_killed_training_ends_with_the_same_bits(
    case: Case, features: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    there, dice = features, random.Random(len(str(case)))
    if case.bucket:
        there, _ = into_a_bucket(features, tmp_path, request.getfixturevalue("bucket"), 20)
    peace, disturbed = training_of(case, features, tmp_path / "peace"), training_of(case, there, tmp_path / "disturbed")
    peace.finish(case.processes)
    for number in range(KILLS):
        step = number * STEPS_PER_KILL + dice.randint(1, STEPS_PER_KILL - 4)
        kill(disturbed, case.processes, KINDS[number % len(KINDS)], step, dice)
    stop(disturbed, case.processes, KILLS * STEPS_PER_KILL + dice.randint(1, STEPS_PER_KILL))
    disturbed.finish(case.processes)
    both = peace, disturbed
    one, other = (newest_state(training.run.path) for training in both)
    for part in ("phases", "ema", "optimizers"):
        assert_same(one[part], other[part], part)
    assert_same(*(torch.load(training.folder / "model/weights.pt", weights_only=True) for training in both))
    assert_same(*(checkpoint.load(training.run.checkpoints / checkpoint.BEST) for training in both))
    assert losses_of(peace) == losses_of(disturbed)
    assert list(losses_of(disturbed)) == list(range(1, one["step"] + 1))


@pytest.mark.long
def test_another_number_of_processes_resumes_to_rounding(features: Path, tmp_path: Path) -> None:
    case = Case("acoustic", 2, {"precision": "fp32", "micro_batches_per_step": 4})
    alone, changed = (training_of(case, features, tmp_path / name) for name in ("alone", "changed"))
    alone.finish(1)
    stop(changed, 2, 20)
    changed.finish(1)
    assert losses_of(changed) == pytest.approx(losses_of(alone), rel=1e-3)
