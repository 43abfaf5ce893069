"""Fingerprint of a training run: a hash of its data, its settings and its recipe's VERSION, but not its code."""

import hashlib
import json
from pathlib import Path
from typing import Any

import sonorant
from sonorant.corpus.cache import code_of


def fingerprint(content: dict[str, Any]) -> str:
    """Return 16 hex digits that name the run directory. A run can resume from a checkpoint with the same
    fingerprint."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def code_in_use() -> str:
    """Return a hash of the package's code, for provenance only: a training run may be resumed by different code."""
    return code_of(sonorant)[:16]


def in_use(train: dict[str, Any]) -> dict[str, Any]:
    """Return the training settings that have an effect, so that changing others causes no new training run."""
    idle: set[str] = set()
    if not train.get("adversarial", True):
        idle |= {name for name in train if name.startswith("adversarial_")}
    if _rate_stays(train):
        idle.add("learning_rate_batch")
    idle |= {name for name in ("patience", "window_shards") if train.get(name) is None}
    idle |= {name for name in ("freeze_steps", "speaker_balance") if not train.get(name)}
    return {name: value for name, value in train.items() if name not in idle}


def _rate_stays(train: dict[str, Any]) -> bool:
    """Whether the learning rate is used unscaled; false for the budget `auto`."""
    batch = train.get("learning_rate_batch")
    budget = train.get("frames_per_micro_batch", train.get("segments_per_micro_batch"))
    return batch is None or (isinstance(budget, int) and train["micro_batches_per_step"] * budget == batch)


def move_aside(run: Path) -> Path:
    """Rename a run directory so that no training run finds it; return the new path."""
    number = next(n for n in range(1, 10**6) if not run.with_name(f"{run.name}.before-{n}").exists())
    return run.rename(run.with_name(f"{run.name}.before-{number}"))
