"""What do windows of shards (`train_<model>.window_shards`) cost: in padding, and in the loss of a model?

    python -m benchmarks.windows --project .      # after `make demo`: also trains acoustic models with its settings

Padding is of plans over made-up lengths, a corpus in shards as the feature store writes them: the share of frames that
are padding where micro-batches are formed within windows, against those over the whole corpus. The loss is of an
acoustic model on the project's features, each seed with and without windows of 2 shards: differences of the last
validation loss, in pairs of seeds.
"""

import tempfile
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.report import command, finish, options
from sonorant.families.parallel.acoustic import AcousticConfig
from sonorant.families.parallel.acoustic_training import AcousticTrainConfig
from sonorant.features.feature_store import FeatureStore
from sonorant.features.plan import padding_waste, utterance_plan
from sonorant.training.distributed.launch import launch
from sonorant.training.run_directory import RunDirectory, read_metrics
from sonorant.training.worker import Job
from tasks.params import load
from tasks.stage import run

SHARD = 720
"""Utterances of a shard of at most 1,024, as full as leaves are."""
SHARDS = 256
"""Of the corpus: some 400 hours of utterances of 8 s."""
WINDOWS = (1, 4, 8, 64)
BUDGETS = {"params.yaml": 1_100, "a GPU": 16_000}
"""Padded frames of a micro-batch."""
FRAMES_A_SECOND = 24_000 / 256
LONGEST = 11.7
"""Seconds; the longest utterance fits the smaller budget."""
LOSS = "validation/loss"
TRAINED = 2
"""Shards of a window where models are trained."""
SHORT: dict[str, Any] = {"shards": 16, "seeds": 0}


def padding(shards: int) -> dict[str, dict[str, float]]:
    """Share of padding by budget and window, `all` without windows."""
    random = np.random.default_rng(0)
    seconds = np.clip(random.lognormal(np.log(7.0), 0.45, shards * SHARD), 1.0, LONGEST)
    frames = np.round(seconds * FRAMES_A_SECOND).astype(np.int64)
    found: dict[str, dict[str, float]] = {}
    for name, budget in BUDGETS.items():
        found[name] = {}
        for window in (*(size for size in WINDOWS if size < shards), shards):
            waste = []
            for first in range(0, min(shards, 4 * window), window):  # four windows tell as much as all
                items = np.arange(first * SHARD, min(shards, first + window) * SHARD)
                waste.append(padding_waste(utterance_plan(frames, items, budget=budget, seed=1, epoch=0), frames))
            found[name]["all" if window == shards else f"{window} shards"] = round(float(np.mean(waste)), 5)
        print(f"padding, micro-batches of {budget} frames: {found[name]}", flush=True)
    return found


def losses(project: Path, seeds: int, steps: int | None) -> dict[str, Any]:
    """The last validation loss of an acoustic model by seed, without windows and with them."""
    file, features = project / "params.yaml", project / "data/features"
    model = asdict(load("acoustic", AcousticConfig, file))
    settings = load("train_acoustic", AcousticTrainConfig, file)
    settings = replace(settings, steps=steps or settings.steps)
    shards = len(FeatureStore.open(features).index.shard_ends)
    found: dict[str, Any] = {"shards": shards, "window": TRAINED, "steps": settings.steps, "all": [], "windows": []}
    with tempfile.TemporaryDirectory() as temporary:
        for seed in range(1, seeds + 1):
            for name, window in (("all", None), ("windows", TRAINED)):
                made = Path(temporary) / f"{name}-{seed}"
                train = asdict(replace(settings, seed=seed, window_shards=window))
                launch(
                    Job(
                        recipe="acoustic", model=model, train=train, features=str(features), codes=None,
                        run=str(made), out=str(made / "model"), fingerprint=made.name, provenance={},
                    )
                )  # fmt: skip
                rows = [row["metrics"] for row in read_metrics(RunDirectory(made).metrics)]
                found[name].append(round(next(row[LOSS] for row in reversed(rows) if LOSS in row), 5))
                print(f"seed {seed}, {name}: {found[name][-1]}", flush=True)
    differences = np.subtract(found["windows"], found["all"])
    found["windows_above"] = round(float(differences.mean()), 5)
    found["between_seeds"] = round(float(np.std(found["all"], ddof=1)), 5)
    return found


def main() -> None:
    """Plan, train, print the verdict."""
    parser = command(__doc__)
    add = parser.add_argument
    add("--project", type=Path, help="a project whose features are there; without one nothing is trained")
    add("--seeds", type=int, default=3, help="of the models (default 3)")
    add("--steps", type=int, help="of each training (default: train_acoustic.steps of the project)")
    add("--shards", type=int, default=SHARDS, help=f"of the corpus that is planned (default {SHARDS})")
    given = options(parser, SHORT)
    result: dict[str, Any] = {"padding": padding(given.shards)}
    more = {name: found["8 shards"] - found["all"] for name, found in result["padding"].items()}
    claims = {
        "windows of 8 shards pad at most 1 % more of the frames than the whole corpus": max(more.values()) <= 0.01
    }
    if given.project and given.seeds > 1:
        result["loss"] = found = losses(given.project, given.seeds, given.steps)
        within = abs(found["windows_above"]) <= 2 * found["between_seeds"]
        claims[f"windows of {TRAINED} shards change the loss by no more than two deviations between seeds"] = within
    else:
        result["loss"] = "not run: needs --project and at least 2 seeds"
    finish("windows", result, claims, given)


if __name__ == "__main__":
    run(main)
