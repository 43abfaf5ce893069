"""Is the loss curve the same on 1, 2 and 4 processes, which accumulate 4, 2 and 1 micro-batches a step?

    python -m benchmarks.world_size

Trains a tiny model of every recipe under torchrun in fp32 and compares losses with those of one process over ten steps:
from the start, and from one process's checkpoint ten steps before its end. A step adds the same numbers in another
order, so losses start within 1e-7 of each other. Training then multiplies that difference, and how fast depends on the
processor's rounding as much as on the model. How far apart whole curves end is therefore printed, but not claimed.
"""

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from benchmarks.report import command, finish, options
from sonorant.training import checkpoint
from sonorant.training.run_directory import RunDirectory, read_metrics
from tests.support.tiny_training import tiny_features
from tests.support.trainings import Training

MICRO_BATCHES = 4
SLOWLY = {"learning_rate": 5e-5, "warmup_steps": 100}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "vocoder": ("vocoder", SLOWLY),
    "vocoder, adversarial": ("vocoder", {**SLOWLY, "adversarial": True, "segments_per_micro_batch": 2}),
    "codec": ("codec", SLOWLY),
    "acoustic, regression": ("acoustic", {"frames_per_micro_batch": 400}),
    "acoustic, flow": ("acoustic", {"frames_per_micro_batch": 400, "decoder": "flow"}),
    "language model": ("language_model", {"frames_per_micro_batch": 400, "prompt_frames": 4}),
}
FIRST_STEPS, FIRST_BOUND = 10, 1e-5
"""Largest relative difference of a loss in so many steps from one state."""
QUICK = ["vocoder, adversarial", "codec", "acoustic, regression", "language model"]
SHORT = {"steps": 20, "processes": [2], "only": QUICK}

Curves = dict[str, np.ndarray]
"""The loss of each phase in each step, (steps,) float64."""


def main() -> None:
    """Train all cases on all numbers of processes and print the verdict."""
    parser = command(__doc__)
    parser.add_argument("--steps", type=int, default=60, help="optimizer steps of each training (default 60)")
    parser.add_argument("--processes", type=int, nargs="+", default=[2, 4], help="beside one (default 2 4)")
    parser.add_argument("--only", choices=list(CASES), action="append", help="only this case; may be given again")
    arguments = options(parser, SHORT)
    result, worst = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        features = tiny_features(Path(folder))
        for case in tqdm(arguments.only or list(CASES), desc="world size", unit="case"):
            result[case] = differences(case, features, Path(folder) / case, arguments.steps, arguments.processes)
            print(f"{case}: {result[case]}", file=sys.stderr)
            worst[case] = max(max(row["first_steps"], row["resumed"]) for row in result[case].values())
    same = f"within {FIRST_BOUND:g} of one process in {FIRST_STEPS} steps from the same state"
    claims = {f"{case}: {same}": apart < FIRST_BOUND for case, apart in worst.items()}
    found = {"largest_relative_difference": max(worst.values()), "steps": arguments.steps, "cases": result}
    finish("world_size", found, claims, arguments, measures=False)


def differences(case: str, features: Path, folder: Path, steps: int, processes: list[int]) -> dict[str, Any]:
    """By number of processes, the largest relative difference of a loss from one process: in the first steps, in as
    many after one process's checkpoint, and in all steps."""
    kind, changes = CASES[case]
    folder.mkdir()
    alone = curves(kind, features, folder / "1", 1, steps, **changes)
    state = checkpoint.path_of(RunDirectory(folder / "1" / "run").checkpoints, steps - FIRST_STEPS)
    first, last, found = slice(FIRST_STEPS), slice(-FIRST_STEPS, None), {}
    for count in processes:
        whole = curves(kind, features, folder / str(count), count, steps, **changes)
        resumed = curves(kind, features, folder / f"resumed on {count}", count, steps, state, **changes)
        found[f"{count} processes"] = {
            "first_steps": difference(part(alone, first), part(whole, first)),
            "resumed": difference(part(alone, last), resumed),
            "all_steps": difference(alone, whole),
        }
    return found


def curves(
    kind: str, features: Path, folder: Path, processes: int, steps: int, start: Path | None = None, **changes: Any
) -> Curves:
    """Train to step `steps` on so many processes, from the checkpoint `start` if given."""
    changes |= {"validate_every": steps, "checkpoint_every": max(1, steps - FIRST_STEPS), "log_every": 1}
    training = Training(kind, features, folder, steps=steps, micro_batches_per_step=MICRO_BATCHES, **changes)
    training.run.checkpoints.mkdir(parents=True)
    if start:
        shutil.copy(start, training.run.checkpoints)
    training.finish(processes)
    rows = [row["metrics"] for row in read_metrics(training.run.metrics) if "train/loss" in row["metrics"]]
    names = [name for name in ("train/loss", "train/discriminator") if name in rows[0]]
    return {name: np.array([row[name] for row in rows]) for name in names}


def part(losses: Curves, steps: slice) -> Curves:
    """Some of the steps."""
    return {name: values[steps] for name, values in losses.items()}


def difference(alone: Curves, together: Curves) -> float:
    """The largest relative difference of a loss in any step."""
    return max(float(f"{np.max(np.abs(together[name] / alone[name] - 1.0)):.2g}") for name in alone)


if __name__ == "__main__":
    main()
