"""Loss curves of one training on several numbers of processes.

Steps add in a different order: losses start within 1e-7, and training amplifies that, so only first steps are
compared.
"""

import shutil
from pathlib import Path
from typing import Any

import numpy as np

from sonorant.training.run_directory import read_metrics
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
"""Number of first steps, and maximum relative difference of their losses."""
Curves = dict[str, np.ndarray]
"""Losses of each phase by step, (steps,) float64."""


def curves(
    kind: str, features: Path, folder: Path, processes: int, steps: int, start: Path | None = None, **changes: Any
) -> Curves:
    """Train to `steps` on the given number of processes, from checkpoint `start`."""
    changes |= {"validate_every": steps, "checkpoint_every": max(1, steps - FIRST_STEPS), "log_every": 1}
    training = Training(kind, features, folder, steps=steps, micro_batches_per_step=MICRO_BATCHES, **changes)
    training.run.checkpoints.mkdir(parents=True)
    if start:
        shutil.copy(start, training.run.checkpoints)
    training.finish(processes)
    rows = [row["metrics"] for row in read_metrics(training.run.metrics) if "train/loss" in row["metrics"]]
    names = [name for name in ("train/loss", "train/discriminator") if name in rows[0]]
    return {name: np.array([row[name] for row in rows]) for name in names}


def difference(alone: Curves, together: Curves) -> float:
    """Largest relative difference of a loss in any step."""
    return max(float(f"{np.max(np.abs(together[name] / alone[name] - 1.0)):.2g}") for name in alone)
