"""What the training stages share: a run directory by fingerprint, a job, MLflow fed beside it. Knows nothing of the
models."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sonorant.data.codes import CodeStore, code_hash
from sonorant.data.features import FeatureStore, store_hash
from sonorant.families import all_families
from sonorant.tracking import stage_run
from sonorant.training.config import DataConfig, MachineConfig
from sonorant.training.distributed.launch import Node, launch
from sonorant.training.initial import Initial
from sonorant.training.run_directory import RunDirectory
from sonorant.training.telemetry.profile import parse_steps
from sonorant.training.worker import Job
from tasks import params
from tasks.fingerprint import fingerprint
from tasks.initial import find_initial
from tasks.origin import origin_tags
from tasks.stage import stage_params


def stage_of(kind: str) -> str:
    """The stage of dvc.yaml that trains models of this kind."""
    return "train_predictor" if any(kind == family.predictor.name for family in all_families()) else "train_waveform"


def train(
    recipe: str,
    model: dict[str, Any],
    settings: dict[str, Any],
    *,
    features: Path,
    runs: Path,
    out: Path,
    codes: Path | None = None,
    profile: str | None = None,
    stage: str | None = None,
    initial: Initial | None = None,
) -> bool:
    """Train `recipe` (a kind of model) to its last step and leave the model in `out`.

    `codes`: the token store of `features`, for recipes that learn codes. `stage`: the stage of dvc.yaml this is part
    of, whose code and params count; None: the one that trains such models. `initial`: weights to start from, where it
    is not `settings` that name them.

    Where several nodes train (PET_NNODES), each runs this; the first one alone has the run directory, feeds MLflow,
    writes `out` and returns true.
    """
    name = f"{stage or 'train'}_{recipe}"
    stage = stage or stage_of(recipe)
    data_hash = hash_of(features)
    codes_hash = hash_of_codes(codes, features) if codes else None
    if settings["init_from"]:
        initial = find_initial(settings["init_from"], recipe, runs, out)
    # By what it holds, not by its name: an alias of the registry moves, and a file may be another tomorrow.
    hashed = settings | {"init_from": initial.content() if initial else None}
    hashed |= {"codes": codes_hash} if codes_hash else {}
    key = fingerprint(stage, {"model": model, "train": hashed}, data_hash)
    run = runs / name / key
    job = Job(
        recipe=recipe,
        model=model,
        train=settings,
        features=str(features),
        codes=str(codes) if codes else None,
        run=str(run),
        out=str(out),
        fingerprint=key,
        provenance=_provenance(key, data_hash, initial),
        data=asdict(params.load("data", DataConfig)),
        machine=asdict(params.load("machine", MachineConfig)),
        initial=str(run / "initial.ckpt") if initial else None,
        profile=parse_steps(profile) if profile else None,
    )
    node = Node.of(os.environ)
    if not node.first:
        print(f"training as node {node.rank} of {node.count} with the first node {node.host}", flush=True)
        launch(job)
        return False
    print(f"training in {run}", flush=True)
    # Before the MLflow run is opened: two processes of one run directory would both send its points.
    RunDirectory(run).wait_until_free(lambda message: print(message, flush=True))
    if initial:
        initial.write(run / "initial.ckpt")
    with stage_run(name, stage_params(stage), {**origin_tags(), "fingerprint": key, "features": data_hash}, run):
        launch(job)
    return True


def _provenance(key: str, data_hash: str, initial: Initial | None) -> dict[str, Any]:
    return {
        "git_commit": origin_tags().get("git_commit", "unknown"),
        "data": data_hash,
        "fingerprint": key,
        "init_from": {"source": initial.source, "sha256": initial.content()} if initial else None,
    }


def hash_of(features: Path) -> str:
    """`store_hash` of a feature store that can be opened; a damaged one is refused here, in one line."""
    FeatureStore.open(features)
    return store_hash(features)


def hash_of_codes(codes: Path, features: Path) -> str:
    """`code_hash` of the token store of `features`; one that is damaged or of other features is refused here, in one
    line."""
    CodeStore.open(codes, FeatureStore.open(features))
    return code_hash(codes)
