"""How fast is training, on equal terms and by own recipes, relative to plain recipes and, optionally, Matcha-TTS?

    python -m benchmarks training --features data/features
    python -m benchmarks training --features data/features --matcha ../Matcha-TTS --matcha-python ../matcha/bin/python

Each model of params.yaml is trained for a few steps with the engine of the stages, under a real torchrun, alternating
with `plain_training`. Equal terms are the same precision, batches and CPU, and one process with one thread each,
compared by CPU time, which other work on the machine hardly affects. By own recipes, ours has one process per core
and the precision that `auto` finds; the other has one process with torch's threads, fp32 and random batches of 32
utterances; they are compared by wall time. Ratios are of figures of one round, taken within minutes. `result.aims`
lists ratios with their aims, reached or not; the claims are lower and should hold on any CPU.

--matcha trains Matcha-TTS itself on the batches of the flow decoder: at equal size on equal terms, and as published
by its own recipe (random batches of 32, fp32, no blanks between symbols). --matcha-python is an interpreter that can
import it.
"""

import argparse
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.report import command, finish, options
from benchmarks.training.plain_training import BATCH, random_batches
from benchmarks.training.training_cases import CLOCK, CPU, MODELS, OURS, Case, Runner, cases, in_turn, jobs, ratios
from sonorant.errors import SonorantError
from sonorant.features.feature_store import FeatureStore
from sonorant.features.plan import padding_waste
from sonorant.processes import usable_cores
from sonorant.training.worker import Job, recipe_of
from testbed.synthetic_corpus import SPEECH, write_corpus

SHORT = {"rounds": 1, "steps": 2, "models": ["regression"], "features": None}
FIGURES = (CLOCK, CPU, "mel_frames_per_second", "steps_per_second")
AIMS = {
    ("regression", "equal terms, fp32"): 3.0,
    ("flow", "Matcha of equal size, fp32"): 3.0,
    ("flow", "Matcha of equal size, bf16"): 3.0,
    ("flow", "Matcha as published, own recipes"): 12.0,
    ("vocoder", "equal terms, fp32"): 2.0,
    ("vocoder", "equal terms, bf16"): 2.0,
}
"""Minimum ratios aimed at."""
LEAST = dict.fromkeys(MODELS, 1.1) | {"adversarial": 0.9, "language_model": 0.9}
"""Minimum ratio claimed for each model on equal terms in fp32."""
Rows = dict[Case, list[dict[str, Any]]]


def measure(runner: Runner, rounds: int, processes: int, against: bool) -> Rows:
    """Figures of each case in each round.

    Models alternate too, because an adversarial step is compared with a plain one.
    """
    rows: Rows = {}
    for number in range(rounds):
        for model in runner.jobs:
            always, once = cases(model, processes, against)
            for case in [*always, *once] if number == 0 else always:
                row = runner.run(case)
                rows.setdefault(case, []).append(row)
                print(f"{case}: {row[CLOCK]:.0f} audio-s/s, {row[CPU]:.0f} a CPU second", file=sys.stderr, flush=True)
    return rows


def summary(measured: list[dict[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {name: round(median(row[name] for row in measured), 2) for name in FIGURES}
    for name in ("parameters", "chosen"):
        if name in measured[0]:
            result[name] = measured[0][name]
    if "shares" in measured[0]:
        result["feeding"] = round(median(row["feeding"] for row in measured), 1)
        result["shares"] = {
            name: round(median(row["shares"].get(name, 0.0) for row in measured), 4) for name in measured[0]["shares"]
        }
    return result


def compared(rows: Rows, models: list[str], processes: int) -> dict[str, dict[str, Any]]:
    """Measured speed ratios by model: each round's and their median."""
    found: dict[str, dict[str, Any]] = {}
    for model, pair in ((name, pair) for name in models for pair in ratios(name, processes)):
        if pair.first != pair.second and pair.first in rows and pair.second in rows:
            by_round = in_turn([[row[pair.speed] for row in rows[case]] for case in (pair.first, pair.second)])
            found.setdefault(model, {})[pair.name] = {
                "ratio": round(median(by_round), 2),
                "rounds": [round(ratio, 2) for ratio in by_round],
            }
    return found


def beside_aims(ratio: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Each aim with the value reached, or not run."""
    found = {}
    for (model, name), aim in AIMS.items():
        reached = ratio.get(model, {}).get(name, {}).get("ratio")
        met = None if reached is None else reached >= aim
        found[f"{model}: {name}"] = {"aim": f"at least {aim:g}", "reached": reached or "not run", "met": met}
    return found


def padding(job: Job) -> dict[str, float]:
    """Padding as a fraction of all computed frames, in the plan and in random batches."""
    recipe = recipe_of(job)
    planned = {"plan": recipe.plan.micro_batches(0), "random": random_batches(recipe)}
    return {name: round(padding_waste(batches, recipe.store.frames), 4) for name, batches in planned.items()}


def judge(runner: Runner, arguments: argparse.Namespace) -> tuple[dict[str, Any], dict[str, bool]]:
    per_step = (job.train["micro_batches_per_step"] for job in runner.jobs.values())
    processes = min(usable_cores(), *per_step)
    rows = measure(runner, arguments.rounds, processes, arguments.matcha is not None)
    ratio = compared(rows, list(runner.jobs), processes)
    figures = {str(case): summary(measured) for case, measured in rows.items()}
    result: dict[str, Any] = {
        "terms": {"processes": processes, "threads_of_a_process": 1, "random_batch": BATCH},
        "cases": figures,
        "ratios": ratio,
        "aims": beside_aims(ratio),
    }
    ours = [figures[str(case)] for case in rows if case.by == OURS]
    claims = {
        "the loader is at least 10 times as fast as the step": min(row["feeding"] for row in ours) >= 10.0,
        "waiting for data takes less than 2 % of the time": max(row["shares"]["data"] for row in ours) < 0.02,
    }
    if "regression" in runner.jobs:
        result["padding"] = padding(runner.jobs["regression"])
        claims["the plan pads less than 5 %"] = result["padding"]["plan"] < 0.05
    for model in runner.jobs:
        claim = f"{model}: at least {LEAST[model]:g} times as fast as its plain recipe, on equal terms in fp32"
        claims[claim] = ratio[model]["equal terms, fp32"]["ratio"] >= LEAST[model]
    return result, claims


def main() -> None:
    parser = command(__doc__)
    add = parser.add_argument
    add("--features", type=Path, default=Path("data/features"), help="feature store (default data/features)")
    add("--steps", type=int, default=16, help="steps of each measurement (default 16)")
    add("--rounds", type=int, default=3, help="how often all take turns (default 3)")
    add("--models", nargs="+", choices=MODELS, default=MODELS)
    add("--matcha", type=Path, metavar="CHECKOUT", help="train Matcha-TTS too, from this checkout")
    add("--matcha-python", default=sys.executable, metavar="PYTHON", help="a Python that can import it")
    arguments = options(parser, SHORT)
    with tempfile.TemporaryDirectory() as folder:
        features = arguments.features or Path(folder) / "features"
        if arguments.features is None:
            write_corpus(features, SPEECH, 4 * BATCH, (1.0, 2.0))
        try:
            FeatureStore.open(features)
        except SonorantError as error:
            raise SystemExit(f"error: {error}\nmake the demo's features with: dvc repro features") from None
        chosen = {name: job for name, job in jobs(features, Path(folder)).items() if name in arguments.models}
        runner = Runner(chosen, arguments.steps, arguments.matcha, arguments.matcha_python)
        result, claims = judge(runner, arguments)
    finish("training", result, claims, arguments)


if __name__ == "__main__":
    main()
