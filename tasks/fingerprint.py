"""Which run directory a training belongs to: by its data, its settings and its recipe's VERSION, never by its code."""

import hashlib
import json
import re
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import sonorant
from sonorant.errors import SonorantError
from sonorant.files import read_json, sha256_tree
from sonorant.formerly import CODEBOOKS
from sonorant.training import checkpoint


def fingerprint(content: dict[str, Any]) -> str:
    """16 hex digits over settings, data and VERSION, which decide the outcome of a training: its run directory's name.

    With the same fingerprint a checkpoint may be resumed; any other trains anew in a folder of its own.
    """
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def code_in_use() -> str:
    """16 hex digits over the code of the package: provenance alone, a training goes on under other code."""
    return sha256_tree([Path(sonorant.__file__).parent])[:16]


def find_run(
    folder: Path,
    content: dict[str, Any],
    codec: dict[str, Any] | None,
    former_data: Callable[[], Collection[str]] | None = None,
) -> Path:
    """The run directory below `folder` for a training of `content`; it may not exist yet.

    Earlier versions of Sonorant named it differently, so theirs is recognised by its `job.json`. `codec`: the token
    store's description of its codec, for recipes that learn codes. `former_data`: what they called the data, which is
    asked for only where they left a training of something else.
    """
    run = folder / fingerprint(content)
    if run.exists():
        return run
    for job_file in sorted(folder.glob("*/job.json")):
        if re.fullmatch(r"[0-9a-f]{16}", job_file.parent.name) and _trains(job_file, content, codec, former_data):
            return job_file.parent
    return run


def _trains(
    job_file: Path,
    content: dict[str, Any],
    codec: dict[str, Any] | None,
    former_data: Callable[[], Collection[str]] | None,
) -> bool:
    """Whether the training that `job_file` describes is the one of `content`."""
    try:
        job = read_json(job_file)
        provenance = job["provenance"]
        data, codes = provenance["data"], provenance.get("codes")
        found = {
            "recipe": job["recipe"],
            "version": job.get("version", 1),
            "model": {CODEBOOKS.get(key, key): value for key, value in job["model"].items()},
            "train": in_use(job["train"]) | {"init_from": None},
            "initial": (provenance.get("init_from") or {}).get("sha256"),
        }
    except (SonorantError, KeyError, TypeError, AttributeError):
        return False  # cannot be compared: leave it where it is
    if found | {"data": content["data"], "codes": content["codes"]} != content:
        return False
    former = data != content["data"]
    if former and not (former_data and data in former_data()):
        return False
    if content["codes"] and (former or not codes) and _learned(job_file.parent, codec):
        return True
    return bool(codes == content["codes"])


def _learned(run: Path, codec: dict[str, Any] | None) -> bool:
    """Whether the newest checkpoint in `run` learned the codes of `codec`, by its description of the codec.

    A codec whose weights file was written anew is another one: `sha256` is compared if the checkpoint has it.
    """
    newest = checkpoint.existing(run / "checkpoints")[:1]
    if not newest or codec is None:
        return False
    try:
        learned = checkpoint.load(newest[0])["description"]["codec"]
    except (checkpoint.DamagedCheckpoint, KeyError):
        return False
    learned = {CODEBOOKS.get(key, key): value for key, value in learned.items()}
    return {"sha256": codec["sha256"], **learned} == codec


def in_use(train: dict[str, Any]) -> dict[str, Any]:
    """The settings of a training without those that decide nothing.

    So a run directory of before such a setting was there is found, and changing one trains nothing again.
    """
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
