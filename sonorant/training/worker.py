"""One rank of a training run: torchrun --nproc-per-node 2 -m sonorant.training.worker job.json"""

import math
import os
import re
import sys
import traceback
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch.distributed as dist

from sonorant.errors import SonorantError
from sonorant.features.local_copy import copy_path, local_copy
from sonorant.files import read_json, write_json, write_text
from sonorant.layers.model_folder import save_model
from sonorant.plugins import model_kind
from sonorant.processes import allow_open_files
from sonorant.training import checkpoint, memory
from sonorant.training.config import DataConfig, MachineConfig
from sonorant.training.distributed.ledger import refuse_other_copies
from sonorant.training.distributed.proof import prove_group
from sonorant.training.distributed.ranks import AllRanksError, Ranks, die_with_parent, join
from sonorant.training.distributed.watchdog import Watchdog
from sonorant.training.initial import Initial
from sonorant.training.recipe import Recipe
from sonorant.training.run_directory import RunDirectory, read_metrics
from sonorant.training.trainer import Trainer

PEER_GONE = re.compile(
    "Connection (closed|reset) by peer|Timed out waiting|NCCL communicator was aborted|ncclRemoteError"
)
"""Errors of gloo and NCCL after another rank has exited or stalled."""
STOPPED = 75
"""Exit code after saving on SIGTERM (EX_TEMPFAIL); with 0, torchrun would wait for the other nodes."""


class PeerGone(SonorantError):
    """Another rank has exited, which is never the root cause."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """A training run, described in a JSON file for all ranks."""

    recipe: str
    model: dict[str, Any]
    train: dict[str, Any]
    features: str
    run: str
    out: str
    fingerprint: str
    """Hash of settings, data and the recipe's VERSION."""
    provenance: dict[str, Any]
    """Commit, hash of the code and fingerprint, for checkpoints and `model.json`."""
    version: int = 1
    codes: str | None = None
    """Folder of the token store, for recipes that learn codes."""
    data: dict[str, Any] = field(default_factory=dict)
    """Fields of DataConfig."""
    machine: dict[str, Any] = field(default_factory=dict)
    """Fields of MachineConfig."""
    initial: str | None = None
    """File of initial weights on the first node; None means random."""
    profile: str | None = None
    """Steps to trace: `auto`, FIRST:LAST or None."""

    def write(self, path: Path) -> None:
        write_json(path, asdict(self))


def recipe_of(job: Job) -> Recipe:
    codes = Path(job.codes) if job.codes else None
    return model_kind(job.recipe).recipe(job.model, job.train, Path(job.features), codes)


def outcome_beside(job_file: Path) -> Path:
    """Return the file in which a node's first rank reports {"state", "step"} to the launcher."""
    return job_file.with_name("outcome.json")


def work(job: Job, ranks: Ranks) -> dict[str, Any]:
    """Train on this rank; rank 0 saves the finished model. Return {"state": finished or stopped, "step"}."""
    prove_group(ranks, int(os.environ.get("SONORANT_WORLD_SIZE", ranks.world_size)))
    run = RunDirectory(Path(job.run))
    ours = False
    try:
        if ranks.first:
            run.lock()
        dist.barrier()
        ours = True
        return _train(job, ranks, run)
    except Exception as error:
        explained = _explained(error, ranks, run)
        if ours and not isinstance(explained, PeerGone):  # reported by that rank, or by torchrun
            kind = "" if isinstance(explained, SonorantError) else f"{type(explained).__name__}: "
            run.fail(kind + " ".join(str(explained).split()))
        raise explained from (None if explained is error else error)


def _train(job: Job, ranks: Ranks, run: RunDirectory) -> dict[str, Any]:
    code = job.provenance.get("code", "unknown")
    refuse_other_copies(Path(job.features), Path(job.codes) if job.codes else None, job.fingerprint, code, ranks)
    if ranks.first and not run.job.exists():  # keep the provenance of its checkpoints
        job.write(run.job)
    data, machine = DataConfig(**job.data), MachineConfig(**job.machine)
    features = Path(job.features)
    if data.preload == "folder" and data.preload_folder:
        folder = Path(data.preload_folder)
        ranks.after(partial(local_copy, features, folder) if ranks.local_rank == 0 else None)
        features = copy_path(features, folder)
    recipe = recipe_of(replace(job, features=str(features)))
    if data.preload == "memory":
        room = memory.part_of_free()
        dist.barrier()  # measure before any rank allocates
        recipe.store.read_into_memory(room)
    if job.initial:
        start_from(recipe, Path(job.initial), ranks)
    key = job.provenance.get("fingerprint", job.fingerprint)
    trainer = Trainer(recipe, ranks, run, key, data, machine, job.profile, job.provenance)
    with Watchdog(ranks, trainer.stopwatch, lambda: trainer.step, machine, run):
        state = trainer.train()
        if ranks.first:
            if state == "finished":
                _save(trainer, job, run)
            replace(job, provenance=trainer.provenance).write(run.job)
            run.write_status(state, trainer.step, trainer.why)
        with trainer.stopwatch("communication"):
            dist.barrier()
    return {"state": state, "step": trainer.step}


def start_from(recipe: Recipe, file: Path, ranks: Ranks) -> None:
    """Copy the weights that rank 0 reads from `file` (see `Initial.write`), and print what was copied."""
    payload = ranks.share(checkpoint.read(file) if ranks.first else None)
    assert payload is not None
    taken = recipe.start_from(Initial.parse(payload))
    if ranks.first:
        print("\n".join(taken.lines), flush=True)


def _explained(error: Exception, ranks: Ranks, run: RunDirectory) -> Exception:
    if isinstance(error, OSError):
        what = f"{error.filename or run.path}: {error.strerror or error}"
        remedy = "fix this, then run the same command to resume from the last checkpoint"
        return SonorantError(f"rank {ranks.rank} on {ranks.host}: {what}; {remedy}")
    if isinstance(error, RuntimeError) and PEER_GONE.search(str(error)):
        return PeerGone(f"rank {ranks.rank} on {ranks.host}: another rank has exited or does not respond")
    return error


def _save(trainer: Trainer, job: Job, run: RunDirectory) -> None:
    out, averages = Path(job.out), trainer.trained.ema.module.state_dict()
    weights = {name: value.detach().cpu().contiguous() for name, value in averages.items()}
    provenance = {**trainer.provenance, "steps": trainer.step}
    if math.isfinite(trainer.best_loss):  # some validation had a finite loss
        provenance["validation_loss"] = trainer.best_loss
    if trainer.why:
        provenance["ended"] = trainer.why
    out.mkdir(parents=True, exist_ok=True)
    _write_curves(out / "curves.csv", run)
    save_model(out, weights, trainer.recipe.description() | {"provenance": provenance})


def _write_curves(path: Path, run: RunDirectory) -> None:
    by_step: dict[int, dict[str, float]] = {}
    for row in read_metrics(run.metrics):
        by_step.setdefault(row["step"], {}).update(row["metrics"])
    found = {name for metrics in by_step.values() for name in metrics}
    names = sorted(name for name in found if name.startswith(("train/", "validation/")))
    rows = [["step", *names]]
    for step, metrics in sorted(by_step.items()):
        rows.append([str(step), *(f"{metrics[name]:.6g}" if name in metrics else "" for name in names)])
    write_text(path, "".join(f"{','.join(row)}\n" for row in rows))


def main() -> None:
    die_with_parent()
    allow_open_files()
    job_file = Path(sys.argv[1])
    job = Job(**read_json(job_file))
    try:
        ranks = join(MachineConfig(**job.machine).patience)
        outcome = work(job, ranks)
    except SonorantError as error:
        if not isinstance(error, AllRanksError) or os.environ.get("LOCAL_RANK") == "0":
            print(f"{'' if isinstance(error, PeerGone) else 'error: '}{error}", file=sys.stderr, flush=True)
        os._exit(1)  # without waiting for peers that may never respond
    except Exception:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    if ranks.local_rank == 0:
        write_json(outcome_beside(job_file), outcome)
    dist.destroy_process_group()
    if outcome["state"] == "stopped":
        raise SystemExit(STOPPED)


if __name__ == "__main__":
    main()
