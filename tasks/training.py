"""What the training stages share: a run directory by fingerprint, a job, MLflow fed beside it."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sonorant.data.codes import CodeStore, code_hash
from sonorant.data.features import FeatureStore, store_hash
from sonorant.families import all_families, model_kind
from sonorant.tracking import stage_run
from sonorant.training.config import DataConfig, MachineConfig
from sonorant.training.distributed.launch import Node, launch
from sonorant.training.initial import Initial
from sonorant.training.run_directory import RunDirectory
from sonorant.training.telemetry.profile import parse_steps
from sonorant.training.worker import Job
from tasks import params
from tasks.fingerprint import code_in_use, find_run, fingerprint, move_aside
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
    fresh: bool = False,
) -> bool:
    """Train `recipe` (a kind of model) to its last step and leave the model in `out`.

    A training of the same data, settings and VERSION that has begun is gone on with, and a finished one only writes its
    model again, whatever code it was trained with.

    Args:
        codes: token store of `features`, for recipes that learn codes.
        stage: stage of dvc.yaml that this is part of, whose params are tracked; None: the one that trains such models.
        initial: weights to start from, where it is not `settings` that name them.
        fresh: start anew; a run directory that is there is moved aside.

    Where several nodes train (PET_NNODES), each runs this; the first one alone has the run directory, feeds MLflow,
    writes `out` and returns true.
    """
    name = f"{stage or 'train'}_{recipe}"
    stage = stage or stage_of(recipe)
    codes_hash, codec = hash_of_codes(codes, features) if codes else (None, None)
    if settings["init_from"]:
        initial = find_initial(settings["init_from"], recipe, runs, out)
    content: dict[str, Any] = {
        "recipe": recipe,
        "version": model_kind(recipe).VERSION,
        "model": model,
        "train": settings | {"init_from": None},
        # By what it holds, not by its name: an alias of the registry moves, and a file may be another tomorrow.
        "initial": initial.content() if initial else None,
        "data": hash_of(features),
        "codes": codes_hash,
    }
    run = find_run(runs / name, content, codec)
    node = Node.of(os.environ)
    if fresh and node.first:
        run = _start_anew(run, content)
    job = Job(
        recipe=recipe,
        model=model,
        train=settings,
        features=str(features),
        codes=str(codes) if codes else None,
        run=str(run),
        out=str(out),
        fingerprint=fingerprint(content),
        version=content["version"],
        provenance=_provenance(run.name, content, initial),
        data=asdict(params.load("data", DataConfig)),
        machine=asdict(params.load("machine", MachineConfig)),
        initial=str(run / "initial.ckpt") if initial else None,
        profile=parse_steps(profile) if profile else None,
    )
    if not node.first:
        print(f"training as node {node.rank} of {node.count} with the first node {node.host}", flush=True)
        launch(job)
        return False
    adopted = "" if run.name == job.fingerprint else " (begun by an earlier Sonorant: same data and settings)"
    print(f"training in {run}{adopted}", flush=True)
    # Before the MLflow run is opened: two processes of one run directory would both send its points.
    RunDirectory(run).wait_until_free(_say)
    if initial:
        initial.write(run / "initial.ckpt")
    tags = {**origin_tags(), "code": job.provenance["code"], "fingerprint": run.name, "features": content["data"]}
    with stage_run(name, stage_params(stage), tags, run):
        launch(job)
    return True


def _start_anew(run: Path, content: dict[str, Any]) -> Path:
    if run.exists():
        RunDirectory(run).wait_until_free(_say)
        _say(f"starting anew: {run} is now {move_aside(run)}")
    return run.with_name(fingerprint(content))


def _say(message: str) -> None:
    print(message, flush=True)


def _provenance(key: str, content: dict[str, Any], initial: Initial | None) -> dict[str, Any]:
    return {
        "git_commit": origin_tags().get("git_commit", "unknown"),
        "code": code_in_use(),
        "data": content["data"],
        "codes": content["codes"],
        "fingerprint": key,
        "init_from": {"source": initial.source, "sha256": content["initial"]} if initial else None,
    }


def hash_of(features: Path) -> str:
    """`store_hash` of a feature store that can be opened; a damaged one is refused here, in one line."""
    FeatureStore.open(features)
    return store_hash(features)


def hash_of_codes(codes: Path, features: Path) -> tuple[str, dict[str, Any]]:
    """`code_hash` of the token store of `features`, and what it says of its codec.

    A store that is damaged or of other features is refused here, in one line.
    """
    return code_hash(codes), CodeStore.open(codes, FeatureStore.open(features)).codec
