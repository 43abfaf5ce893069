"""Shared code of the training stages: command line, run directory by fingerprint, job, MLflow run."""

import argparse
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sonorant.families.family import ModelKind
from sonorant.features.codes import CodeStore, code_hash
from sonorant.features.feature_store import FeatureStore, store_hash
from sonorant.files import read_json
from sonorant.plugins import all_families, model_kind
from sonorant.registry.tracking import stage_run
from sonorant.training.config import DataConfig, MachineConfig
from sonorant.training.distributed.launch import Node, launch
from sonorant.training.initial import Initial
from sonorant.training.run_directory import RunDirectory
from sonorant.training.telemetry.profile import parse_steps
from sonorant.training.worker import Job
from tasks import params
from tasks.fingerprint import code_in_use, fingerprint, in_use, move_aside
from tasks.initial import find_initial
from tasks.origin import origin_tags
from tasks.stage import add_inputs, stage_params

Fields = dict[str, Any]


def stage_of(kind: str) -> str:
    return "train_predictor" if any(kind == family.predictor.name for family in all_families()) else "train_waveform"


def training_parser(stage: str, description: str | None, codes: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"python -m tasks.{stage}", description=description)
    add_inputs(parser, "features", "runs")
    parser.add_argument("--codes", type=Path, required=True, help=codes)
    parser.add_argument("--out", type=Path, required=True, help="folder to write the trained model to")
    profile = "write a trace of these steps (without a range: a few)"
    parser.add_argument("--profile", nargs="?", const="auto", metavar="FIRST:LAST", help=profile)
    add_fresh(parser)
    return parser


def add_fresh(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--fresh", action="store_true", help="start again; the old run directory is renamed")


def train_kind(kind: ModelKind, arguments: argparse.Namespace, codes: Path | None = None) -> bool:
    """Call `train` with the kind's sections of params.yaml and the arguments of `training_parser`."""
    sizes: Any = params.load(kind.name, kind.sizes())
    settings = asdict(params.load(f"train_{kind.name}", kind.settings()))
    return train(kind.name, asdict(sizes), settings, **{**vars(arguments), "codes": codes})


def train(
    recipe: str,
    model: Fields,
    settings: Fields,
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
    """Train `recipe` (a kind of model) to its last step and write the model to `out`.

    A run with the same data, settings and VERSION is resumed, under any code; a finished one writes its model again.

    Args:
        codes: token store of `features`, for recipes that learn codes.
        stage: stage of dvc.yaml whose params are tracked; None means the stage that trains such models.
        initial: weights to start from, unless `settings` name them.
        fresh: start again; an existing run directory is renamed.

    On several nodes (PET_NNODES), each node calls this function; only the first has the run directory and MLflow,
    writes `out` and returns true.
    """
    name = f"{stage or 'train'}_{recipe}"
    if profile:
        parse_steps(profile)
    if settings["init_from"]:
        initial = find_initial(settings["init_from"], recipe, runs, out)
    content = _content(recipe, model, settings, features, codes, initial)
    node, run = Node.of(os.environ), runs / name / fingerprint(content)
    if fresh and node.first:
        _start_again(run)
    elif node.first and not initial:
        _say_changed(recipe, run, content)
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
        profile=profile,
    )
    if node.first:
        _launch_tracked(job, name, stage or stage_of(recipe), initial)
    else:
        _say(f"training as node {node.rank} of {node.count}; the first node is {node.host}")
        launch(job)
    return node.first


def _start_again(run: Path) -> None:
    if run.exists():
        RunDirectory(run).wait_until_free(_say)
        _say(f"starting again; the old run directory {run} is now {move_aside(run)}")


def _say_changed(kind: str, run: Path, content: Fields) -> None:
    """Name the settings because of which `run` is new beside the newest run of otherwise the same content, and offer to
    go on from that."""
    others = [] if run.exists() else sorted(run.parent.glob("*/job.json"), key=os.path.getmtime, reverse=True)
    for other in others:
        now, before = content["train"], in_use(read_json(other)["train"]) | {"init_from": None}
        if fingerprint({**content, "train": before}) == other.parent.name:
            names = [name for name in {**before, **now} if before.get(name) != now.get(name)]
            changed = ", ".join(f"{name} is {now.get(name)}, was {before.get(name)}" for name in names)
            _say(
                f"train_{kind}: {changed}: a new training from step 0; to go on from the last checkpoint of the former "
                f"instead, set train_{kind}.init_from to {other.parent}"
            )
            return


def _content(
    recipe: str, model: Fields, settings: Fields, features: Path, codes: Path | None, initial: Initial | None
) -> Fields:
    """Return everything that affects the result of a training run, for its fingerprint."""
    return {
        "recipe": recipe,
        "version": model_kind(recipe).VERSION,
        "model": model,
        "train": in_use(settings) | {"init_from": None},
        "initial": initial.content() if initial else None,  # not its name, because aliases move and files change
        "data": hash_of(features),
        "codes": hash_of_codes(codes, features) if codes else None,
    }


def _launch_tracked(job: Job, name: str, stage: str, initial: Initial | None) -> None:
    """Train on the first node with an MLflow run, after waiting for other users of the run directory."""
    run = Path(job.run)
    _say(f"training in {run}")
    Path(job.out).mkdir(parents=True, exist_ok=True)  # fails now rather than after training
    if not any(Path(job.out).iterdir()):
        Path(job.out).rmdir()  # a killed training leaves no empty model
    # Locked before the MLflow run opens; otherwise two processes would send the run's points.
    with RunDirectory(run).launching(_say):
        if initial:
            initial.write(run / "initial.ckpt")
        kept = {"code": job.provenance["code"], "fingerprint": run.name, "features": job.provenance["data"]}
        with stage_run(name, stage_params(stage), {**origin_tags(), **kept}, run):
            launch(job)


def _say(message: str) -> None:
    print(message, flush=True)


def _provenance(key: str, content: Fields, initial: Initial | None) -> Fields:
    return {
        "git_commit": origin_tags().get("git_commit", "unknown"),
        "code": code_in_use(),
        "data": content["data"],
        "codes": content["codes"],
        "fingerprint": key,
        "init_from": {"source": initial.source, "sha256": content["initial"]} if initial else None,
    }


def hash_of(features: Path) -> str:
    """Return the hash of a feature store. Raises SonorantError if its index is damaged or a shard is missing."""
    FeatureStore.open(features).check()
    return store_hash(features)


def hash_of_codes(codes: Path, features: Path) -> str:
    """Return the hash of a token store. Raises SonorantError if it is damaged or does not match `features`."""
    CodeStore.open(codes, FeatureStore.open(features))
    return code_hash(codes)
