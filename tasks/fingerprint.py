"""Which run directory a training belongs to: by its data, its settings and its recipe's VERSION, never by its code."""

import hashlib
import json
from pathlib import Path
from typing import Any

import sonorant
from sonorant.cache import code_of


def fingerprint(content: dict[str, Any]) -> str:
    """16 hex digits over settings, data and VERSION, which decide the outcome of a training: its run directory's name.

    With the same fingerprint a checkpoint may be resumed; any other trains anew in a folder of its own.
    """
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def code_in_use() -> str:
    """16 hex digits over the code of the package: provenance alone, a training goes on under other code."""
    return code_of(sonorant)[:16]


def in_use(train: dict[str, Any]) -> dict[str, Any]:
    """The settings of a training without those that have no effect here: changing one trains nothing again."""
    idle: set[str] = set()
    if not train.get("adversarial", True):
        idle |= {name for name in train if name.startswith("adversarial_")}
    if _rate_stays(train):
        idle |= {"learning_rate_batch", "learning_rate_scaling"}
    if train.get("clip_norm_fp16") is None or train.get("precision") in ("fp32", "bf16"):
        idle.add("clip_norm_fp16")
    idle |= {name for name in ("patience", "window_shards") if train.get(name) is None}
    idle |= {name for name in ("freeze_steps", "speaker_balance") if not train.get(name)}
    return {name: value for name, value in train.items() if name not in idle}


def _rate_stays(train: dict[str, Any]) -> bool:
    """Whether the learning rate is used as it is set; with the budget `auto` that is not known yet."""
    batch = train.get("learning_rate_batch")
    budget = train.get("frames_per_micro_batch", train.get("segments_per_micro_batch"))
    return batch is None or (isinstance(budget, int) and train["micro_batches_per_step"] * budget == batch)


def move_aside(run: Path) -> Path:
    """Give a run directory a name under which no training is looked for, and return it."""
    number = next(n for n in range(1, 10**6) if not run.with_name(f"{run.name}.before-{n}").exists())
    return run.rename(run.with_name(f"{run.name}.before-{number}"))
