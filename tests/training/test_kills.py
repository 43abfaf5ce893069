"""Trainings killed at random steps end bit-identical to undisturbed ones.

Kills hit all processes, one rank, or a write of a checkpoint; each training is also stopped once with SIGTERM.
`SONORANT_KILLS=20` kills each training twenty times.
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch

from sonorant.features.feature_store import FeatureStore
from sonorant.features.store import StoreConfig
from sonorant.training import checkpoint
from sonorant.training.distributed.launch import SHUTDOWN_SECONDS
from sonorant.training.run_directory import read_metrics
from testbed.synthetic_corpus import TINY, write_corpus
from testbed.tiny_training import tiny_codes
from tests.support.object_store import object_store, why_not
from tests.support.trainings import SLOW_WRITE, Training, ranks_of
from tests.support.waiting import PATIENCE

STEPS_PER_KILL = 10
KILLS = int(os.environ.get("SONORANT_KILLS", "3"))
WINDOW = 2
KINDS = ("all processes", "one rank", "inside a write")
PARTS = ("weights", "average", "optimizers", "saved_model", "best", "curve")


@dataclass
class Case:
    kind: str
    processes: int
    changes: dict[str, Any]
    bucket: bool = False
    kills: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))
    stop: dict[str, Any] = field(default_factory=dict)
    end: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        changes = (f"{key} {value}" if value is not True else key for key, value in self.changes.items())
        where = " from a bucket" if self.bucket else ""
        return f"{self.kind} {' '.join(changes)}{where}, {self.processes} process{'es' if self.processes > 1 else ''}"


def cases() -> list[Case]:
    return [
        Case("acoustic", 1, {"precision": "fp32"}),
        Case("vocoder", 1, {"precision": "bf16", "adversarial": True}),
        Case("acoustic", 2, {"precision": "fp32", "decoder": "flow"}),
        Case("acoustic", 2, {"precision": "bf16"}),
        Case("codec", 2, {"precision": "bf16"}),
        Case("language_model", 1, {"precision": "fp32", "prompt_frames": 4}),
        Case("acoustic", 2, {"precision": "fp32", "window_shards": WINDOW}, bucket=True),
        Case("language_model", 1, {"precision": "bf16", "window_shards": WINDOW}, bucket=True),
    ]


def training_of(case: Case, features: Path, folder: Path, steps: int) -> Training:
    every: dict[str, Any] = {"checkpoint_every": 4, "validate_every": 15, "log_every": 1}
    return Training(case.kind, features, folder, **case.changes, steps=steps, **every)


def start_until(training: Training, case: Case, step: int, **variables: str) -> subprocess.Popen[bytes]:
    """Start or resume; return when `step` is logged."""
    agent = training.start(case.processes, before=None, **variables)
    training.wait_for(lambda: max(logged_steps(training), default=0) >= step, agent)
    return agent


def logged_steps(training: Training) -> list[int]:
    return [row["step"] for row in read_metrics(training.run.metrics) if "train/loss" in row["metrics"]]


def kill(training: Training, case: Case, kind: str, step: int, dice: random.Random) -> bool:
    """Kill the training after `step` and wait for all processes; return whether the kill hit as planned."""

    def unfinished_write() -> bool:
        return any(training.run.checkpoints.glob(".*.ckpt.*.tmp"))

    inside = kind == "inside a write"
    agent = start_until(training, case, step, **({"DISTURBED": "slow_disk"} if inside else {}))
    ranks = ranks_of(agent)
    deadline = time.monotonic() + PATIENCE
    while inside and not unfinished_write() and time.monotonic() < deadline:
        time.sleep(0.002)
    time.sleep(dice.uniform(0, 1.8 * SLOW_WRITE if inside else 0.1))
    for number in [dice.choice(sorted(ranks))] if kind == "one rank" else ranks:
        ranks[number].kill()  # before torchrun, whose end would let them save
    if kind == "all processes":
        agent.kill()
    hit = unfinished_write() if inside else True
    agent.wait(PATIENCE)
    psutil.wait_procs(list(ranks.values()), PATIENCE)
    return hit


def stop(training: Training, case: Case, step: int) -> dict[str, Any]:
    agent = start_until(training, case, step)
    start = time.monotonic()
    agent.send_signal(signal.SIGTERM)
    agent.wait(PATIENCE)
    return {
        "seconds": round(time.monotonic() - start, 1),
        "state": training.run.status()["state"],
        "steps_to_repeat": max(logged_steps(training)) - _newest(training)["step"],
    }


def disturb(case: Case, features: Path, bucket: Path | None, folder: Path, kills: int, first: int, seed: int) -> Case:
    """Train undisturbed and with `kills` kills (kinds in rotation from `first`) and a stop; compare the ends."""
    dice = random.Random(seed)
    steps = STEPS_PER_KILL * (kills + 2)
    peace = training_of(case, features, folder / "peace", steps)
    disturbed = training_of(case, bucket if case.bucket and bucket else features, folder / "disturbed", steps)
    peace.finish(case.processes)
    for number in range(kills):
        kind, step = KINDS[(first + number) % len(KINDS)], number * STEPS_PER_KILL + dice.randint(1, STEPS_PER_KILL - 4)
        hit = kill(disturbed, case, kind, step, dice)
        case.kills[kind] += hit
        print(f"{case.name}: killed after step {step} ({kind}{'' if hit else ', missed'})", file=sys.stderr, flush=True)
    case.stop = stop(disturbed, case, kills * STEPS_PER_KILL + dice.randint(1, STEPS_PER_KILL))
    disturbed.finish(case.processes)
    case.end = compare(peace, disturbed, steps)
    return case


def compare(peace: Training, disturbed: Training, last: int) -> dict[str, Any]:
    """Which parts of the ends are bit-identical, and how the logs differ."""
    both = (peace, disturbed)
    one, other = map(_newest, both)
    saved = [torch.load(training.folder / "model/weights.pt", weights_only=True) for training in both]
    best = [checkpoint.load(training.run.checkpoints / checkpoint.BEST) for training in both]
    steps = logged_steps(disturbed)
    return {
        "weights": identical(one["phases"], other["phases"]),
        "average": identical(one["ema"], other["ema"]),
        "optimizers": identical(one["optimizers"], other["optimizers"]),
        "saved_model": identical(*saved),
        "best": identical(*best),
        "curve": _losses(peace) == _losses(disturbed),
        "steps_logged_twice": len(steps) - len(set(steps)),
        "steps_missing": len(set(range(1, last + 1)) - set(steps)),
    }


def identical(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return bool(torch.equal(one, other)) and one.dtype == other.dtype
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(identical(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(identical, one, other))
    return bool(one == other)


@contextmanager
def features_in_a_bucket(features: Path, folder: Path) -> Iterator[Path]:
    """The features in an object store, with a cache smaller than the corpus."""
    sizes = [path.stat().st_size for path in Path(FeatureStore.open(features).place.store).glob("objects/*/*")]
    room = max(sizes) + sum(sizes) // 3
    assert room < sum(sizes)
    with object_store(folder / "s3") as running, pytest.MonkeyPatch.context() as patch:
        for name, value in running.environment.items():
            patch.setenv(name, value)
        out, cache = folder / "remote" / "features", str(folder / "cache")
        place = StoreConfig(
            place=f"s3://{running.bucket}/features", utterances_per_shard=8, cache=cache, cache_gib=room / 2**30
        )
        write_corpus(out, TINY, 20, (1.0, 1.6), config=place)
        assert (out / "header.json").read_bytes() == (features / "header.json").read_bytes()
        yield out


def other_world_size(features: Path, folder: Path) -> dict[str, float]:
    """Train half on two processes, half on one; the largest relative differences from one process."""
    case = Case("acoustic", 2, {"precision": "fp32", "micro_batches_per_step": 4})
    alone, changed = (training_of(case, features, folder / name, 40) for name in ("alone", "changed"))
    alone.finish(1)
    stop(changed, case, 20)
    changed.finish(1)
    losses = [abs(a - b) / abs(a) for a, b in zip(_losses(alone), _losses(changed), strict=True)]
    pairs = zip(_weights(alone), _weights(changed), strict=True)
    norms = [float((a - b).norm() / a.norm().clamp(min=1e-12)) for a, b in pairs if a.any()]
    return {"loss": max(losses), "weights": max(norms)}


def _newest(training: Training) -> dict[str, Any]:
    return checkpoint.load(checkpoint.existing(training.run.checkpoints)[0])


def _losses(training: Training) -> list[float]:
    rows = [row for row in read_metrics(training.run.metrics) if "train/loss" in row["metrics"]]
    return [row["metrics"]["train/loss"] for row in sorted(rows, key=lambda row: row["step"])]


def _weights(training: Training) -> list[torch.Tensor]:
    phases = _newest(training)["phases"].values()
    return [value.double() for state in phases for value in state.values() if value.is_floating_point()]


@pytest.mark.long
@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_a_killed_training_ends_with_the_same_bits(case: Case, features: Path, tmp_path: Path) -> None:
    if case.bucket and why_not():
        pytest.skip(f"no object store: {why_not()}")
    with ExitStack() as stack:
        bucket = stack.enter_context(features_in_a_bucket(features, tmp_path)) if case.bucket else None
        for there in filter(None, (features, bucket)):
            tiny_codes(there)
        done = disturb(case, features, bucket, tmp_path, KILLS, first=0, seed=len(case.name))
    different = [part for part in PARTS if not done.end[part]]
    assert different == []
    assert done.end["steps_logged_twice"] == done.end["steps_missing"] == 0
    assert sum(done.kills.values()) == KILLS, "a kill missed its moment"
    assert done.stop["state"] == "stopped" and done.stop["steps_to_repeat"] == 0
    assert done.stop["seconds"] < SHUTDOWN_SECONDS


@pytest.mark.long
def test_another_number_of_processes_resumes_to_rounding(features: Path, tmp_path: Path) -> None:
    assert other_world_size(features, tmp_path)["loss"] < 1e-3
