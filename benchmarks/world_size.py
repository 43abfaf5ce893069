"""That one loss curve comes out, whatever the number of processes: 1, 2 and 4 of them accumulate 4, 2 and 1
micro-batches a step.

    python -m benchmarks.world_size

Trains tiny models under torchrun in fp32 and compares the losses of every step with those of one process. A step adds
the same numbers in another order, so the curves start within 1e-7. Training then multiplies the difference, as it would
any other: fast where the loss is steep, as the vocoder's logarithms of small magnitudes are (one process that adds in
reverse order departs from itself as far), hardly in the acoustic model. Hence two bounds, on the first steps and on
all, and a small learning rate for the vocoder. Ranks that do not average their gradients are beyond both.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from benchmarks.report import finish, save_option
from sonorant.training.distributed.launch import environment
from sonorant.training.run_directory import RunDirectory, read_metrics
from tests.support.tiny_training import tiny_features, tiny_job

ROOT = Path(__file__).parents[1]
MICRO_BATCHES = 4
PROCESSES = (1, 2, 4)
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
"""Largest relative difference of a loss in the first steps: without averaging it is 6e-5 and more."""
BOUND = 2e-3
"""In any step: without averaging it is 6e-3 and more."""


def main() -> None:
    """Train all cases on all numbers of processes and print the verdict."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=100, help="optimizer steps of each training (default 100)")
    parser.add_argument("--only", choices=list(CASES), action="append", help="only this case; may be given again")
    save_option(parser)
    arguments = parser.parse_args()
    result, claims = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        features = tiny_features(Path(folder))
        for case in tqdm(arguments.only or list(CASES), desc="world size", unit="case"):
            kind, changes = CASES[case]
            found = {
                n: curves(kind, features, Path(folder) / f"{case} {n}", n, arguments.steps, **changes)
                for n in PROCESSES
            }
            result[case] = {
                f"{n} processes": {
                    "first_steps": difference(found[1], found[n], FIRST_STEPS),
                    "all_steps": difference(found[1], found[n], arguments.steps),
                }
                for n in PROCESSES[1:]
            }
            print(f"{case}: {result[case]}", file=sys.stderr)
            rows = result[case].values()
            claims[
                f"{case}: within {FIRST_BOUND:g} of one process in {FIRST_STEPS} steps, {BOUND:g} in {arguments.steps}"
            ] = all(row["first_steps"] < FIRST_BOUND and row["all_steps"] < BOUND for row in rows)
    largest = max(row["all_steps"] for rows in result.values() for row in rows.values())
    finish(
        "world_size",
        {"largest_relative_difference": largest, "steps": arguments.steps, "cases": result},
        claims,
        arguments.save,
    )


def curves(
    kind: str, features: Path, folder: Path, processes: int, steps: int, **changes: Any
) -> dict[str, np.ndarray]:
    """The loss of each phase in each step, (steps,) float64, of a training on so many processes."""
    folder.mkdir()
    every = {"validate_every": steps, "checkpoint_every": steps, "log_every": 1}
    job = tiny_job(kind, features, folder, steps=steps, micro_batches_per_step=MICRO_BATCHES, **every, **changes)
    job.write(folder / "job.json")
    given = {**os.environ, "PET_NNODES": "1", "PET_NPROC_PER_NODE": str(processes), "OMP_NUM_THREADS": "1"}
    command = [
        sys.executable,
        "-m",
        "sonorant.training.distributed.agent",
        "-m",
        "sonorant.training.worker",
        str(folder / "job.json"),
    ]
    done = subprocess.run(command, cwd=ROOT, env=environment(given, MICRO_BATCHES), capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    rows = [
        row["metrics"] for row in read_metrics(RunDirectory(Path(job.run)).metrics) if "train/loss" in row["metrics"]
    ]
    return {
        name: np.array([row[name] for row in rows]) for name in ("train/loss", "train/discriminator") if name in rows[0]
    }


def difference(alone: dict[str, np.ndarray], together: dict[str, np.ndarray], steps: int) -> float:
    """The largest relative difference of a loss in any of the first steps."""
    return max(float(f"{np.max(np.abs(together[name] / alone[name] - 1.0)[:steps]):.2g}") for name in alone)


if __name__ == "__main__":
    main()
