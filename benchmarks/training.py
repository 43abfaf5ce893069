"""How fast training is, by model, precision and processes, against a plain recipe of equal size; and where a step's
time goes.

    python -m benchmarks.training --features data/features

Trains the models of params.yaml for a few steps with the engine of the stages, under a real torchrun, and in turn with
`benchmarks.plain_training`, both with as much audio in an optimizer step. The stages' defaults take turns with it in
every round, all other cases in the first only. Each figure is also a ratio to the plain recipe of its own round, so it
holds on any machine.
Reference: FastPitch reaches 101,730 mel frames/s on one A100 (NVIDIA's published figure).
"""

import argparse
import itertools
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.plain_training import BATCH, random_batches
from benchmarks.processes import ROOT, torchrun
from benchmarks.report import command, finish, options
from sonorant.data.features import FeatureStore
from sonorant.data.plan import padding_waste
from sonorant.errors import SonorantError
from sonorant.families.parallel.acoustic import AcousticConfig
from sonorant.families.parallel.training import AcousticTrainConfig, VocoderTrainConfig
from sonorant.families.parallel.vocoder import VocoderConfig
from sonorant.files import read_json
from sonorant.processes import usable_cores
from sonorant.training.distributed.launch import environment
from sonorant.training.worker import Job, recipe_of
from tasks import params
from tests.support.synthetic_corpus import SPEECH, write_corpus

THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
"""Left to each recipe: ours has its launcher's, the plain one what torch does by itself."""
SHORT = {"rounds": 1, "steps": 2, "models": ["regression"], "features": None}
FIGURES = ("audio_seconds_per_second", "mel_frames_per_second", "steps_per_second")
MODELS = ("regression", "flow", "vocoder")


@dataclass(frozen=True, kw_only=True)
class Case:
    """What is trained: a model, and how."""

    model: str
    """Key of `jobs`."""
    precision: str
    processes: int
    plain: bool = False

    def __str__(self) -> str:
        return f"{self.model} plain" if self.plain else f"{self.model} {self.precision} x{self.processes}"


def jobs(features: Path) -> dict[str, Job]:
    """The training of each model, from params.yaml, with as much audio in an optimizer step as in the plain recipe's
    batch."""
    acoustic, vocoder = asdict(params.load("acoustic", AcousticConfig)), asdict(params.load("vocoder", VocoderConfig))
    train = asdict(params.load("train_acoustic", AcousticTrainConfig))
    of_vocoder = asdict(params.load("train_vocoder", VocoderTrainConfig))
    store = FeatureStore.open(features)
    frames = float(store.frames[store.indices("train")].mean()) * BATCH
    train["frames_per_micro_batch"] = round(frames / train["micro_batches_per_step"])
    of_vocoder["segments_per_micro_batch"] = BATCH // of_vocoder["micro_batches_per_step"]
    same: Any = {"features": str(features.resolve()), "run": "", "out": "", "fingerprint": "", "provenance": {}}
    found = {"vocoder": Job(recipe="vocoder", model=vocoder, train=of_vocoder, **same)}
    for decoder in ("regression", "flow"):
        found[decoder] = Job(recipe="acoustic", model=acoustic | {"decoder": decoder}, train=train, **same)
    return {name: found[name] for name in MODELS}


def cases(model: str, rounds: int, processes: int) -> Iterator[list[Case]]:
    """The cases of each round, the plain recipe first."""
    plain = Case(model=model, precision="fp32", processes=1, plain=True)
    default = Case(model=model, precision="bf16", processes=processes)
    pairs = itertools.product(("bf16", "fp32"), {1, processes})
    every = [Case(model=model, precision=precision, processes=count) for precision, count in pairs]
    yield [plain, default, *(case for case in every if case != default)]
    for _ in range(rounds - 1):
        yield [plain, default]


def run(case: Case, job: Job, steps: int) -> dict[str, Any]:
    """Train a case in processes of its own; the figures it reached."""
    given = {name: value for name, value in os.environ.items() if name not in THREADS}
    with tempfile.TemporaryDirectory() as folder:
        file, reached = Path(folder) / "job.json", Path(folder) / "reached.json"
        if case.plain:
            few = max(2, steps // 3)  # it is about three times as slow
            command, env = [sys.executable, "-m", "benchmarks.plain_training", str(file), str(few), "1"], given
        else:
            job = replace(job, train={**job.train, "precision": case.precision})
            command = torchrun(file, steps, 4, worker="benchmarks.training_worker")
            given["PET_NPROC_PER_NODE"] = str(case.processes)
            env = environment(given, job.train["micro_batches_per_step"])
        job.write(file)
        done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
        if done.returncode or not reached.exists():
            raise SystemExit(f"{case} did not train:\n{done.stdout}{done.stderr}")
        return read_json(reached)


def measure(jobs: dict[str, Job], rounds: int, steps: int, processes: int) -> dict[str, dict[str, Any]]:
    """Each case's medians over the rounds, with its ratios to the plain recipe of the same round."""
    found: dict[str, dict[str, Any]] = {}
    for model, job in jobs.items():
        rows: dict[Case, list[dict[str, Any]]] = {}
        for turn in cases(model, rounds, processes):
            for case in turn:
                row = run(case, job, steps)
                speed = row["audio_seconds_per_second"]
                rows.setdefault(case, []).append(row)
                if not case.plain:
                    row["ratio_to_plain"] = speed / rows[turn[0]][-1]["audio_seconds_per_second"]
                print(f"{case}: {speed:.0f} audio-s/s", file=sys.stderr, flush=True)
        found |= {str(case): summary(measured) for case, measured in rows.items()}
    return found


def summary(measured: list[dict[str, Any]]) -> dict[str, Any]:
    """Medians over the rounds, and the ratio to the plain recipe in each."""
    result: dict[str, Any] = {name: round(median(row[name] for row in measured), 2) for name in FIGURES}
    if "shares" in measured[0]:
        ratios = [row["ratio_to_plain"] for row in measured]
        result["ratio_to_plain"], result["ratios"] = round(median(ratios), 2), [round(ratio, 2) for ratio in ratios]
        result["loader_stall"] = round(median(row["shares"]["data"] for row in measured), 4)
        result["feeding"] = round(median(row["feeding"] for row in measured), 1)
        result["shares"] = {
            name: round(median(row["shares"].get(name, 0.0) for row in measured), 4) for name in measured[0]["shares"]
        }
    return result


def padding(job: Job) -> dict[str, float]:
    """Padding as a fraction of all frames computed, by the plan and in random batches."""
    recipe = recipe_of(job)
    planned = {"plan": recipe.plan.micro_batches(0), "random": random_batches(recipe)}
    return {name: round(padding_waste(batches, recipe.store.frames), 4) for name, batches in planned.items()}


def main() -> None:
    """Measure and print the verdict."""
    parser = command(__doc__)
    add = parser.add_argument
    add("--features", type=Path, default=Path("data/features"), help="feature store (default data/features)")
    add("--steps", type=int, default=16, help="steps of each measurement (default 16)")
    add("--rounds", type=int, default=3, help="how often ours and the plain recipe take turns (default 3)")
    add("--models", nargs="+", choices=MODELS, default=MODELS)
    arguments = options(parser, SHORT)
    with tempfile.TemporaryDirectory() as folder:
        features = arguments.features or Path(folder) / "features"
        if arguments.features is None:
            write_corpus(features, SPEECH, 4 * BATCH, (1.0, 2.0))
        try:
            FeatureStore.open(features)
        except SonorantError as error:
            raise SystemExit(f"error: {error}\nmake the demo's features with: dvc repro features") from None
        result, claims = judge(features, arguments)
    finish("training", result, claims, arguments)


def judge(features: Path, arguments: argparse.Namespace) -> tuple[dict[str, Any], dict[str, bool]]:
    """Measure all cases on a feature store; figures and claims."""
    chosen = {name: job for name, job in jobs(features).items() if name in arguments.models}
    processes = min(usable_cores(), *(job.train["micro_batches_per_step"] for job in chosen.values()))
    found = measure(chosen, arguments.rounds, arguments.steps, processes)

    result: dict[str, Any] = {"cases": found}
    ours = {name: found[str(Case(model=name, precision="bf16", processes=processes))] for name in chosen}
    alone = {name: found[str(Case(model=name, precision="bf16", processes=1))] for name in chosen}
    result["ratio_to_plain"] = {name: row["ratio_to_plain"] for name, row in ours.items()}
    result["scaling"] = {
        f"{name} 1 to {processes}": round(row["audio_seconds_per_second"] / alone[name]["audio_seconds_per_second"], 2)
        for name, row in ours.items()
    }
    claims = {
        "the loader is at least 10 times as fast as the step": min(row["feeding"] for row in ours.values()) >= 10.0,
        "waiting for data takes less than 2 % of the time": max(row["loader_stall"] for row in ours.values()) < 0.02,
    }
    if "regression" in chosen:
        result["padding"], ratio = padding(chosen["regression"]), result["ratio_to_plain"]["regression"]
        claims["the plan pads less than 5 %"] = result["padding"]["plan"] < 0.05
        claims["the acoustic model trains at least 3 times as fast as by the plain recipe"] = ratio >= 3.0
    return result, claims


if __name__ == "__main__":
    main()
