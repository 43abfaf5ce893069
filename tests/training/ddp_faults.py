"""Planted faults of distributed training (`tests.support.faulty_worker`) and their errors."""

import platform
import re
from pathlib import Path

from sonorant.training.worker import Job
from testbed.tiny_training import tiny_job

CAUSES = {
    "wrapper_bypassed": r"step 1: the gradients of .* were not averaged",
    "wrapper_bypassed_later": r"step 8: the gradients of .* were not averaged",
    "same_data_on_two_ranks": r"step 1 .* computed more than once, .* the ranks load the same data",
    "node_local_slicing": r"step 1 .* more than once, .*local rank 0\) and by .*local rank 0\): "
    "the ranks load the same data",
    "never_reshuffled": r"epochs 0 to 3 have the same plan",
    "epoch_never_set": r"step 3 \(epoch 1\): \d+ samples were computed by no rank, .* was assigned to rank \d",
    "two_ranks_on_one_device": r"has the same device as rank 0",
    "wrong_world_size": r"2 ranks should train together but 1 joined",
    "one_replica_drifts": r"step 8: the weights of rank 1 .* differ from those of the other ranks, first in",
    "average_drifts": r"step 8: the average of rank 1 .* differ from those of the other ranks, first in",
    "other_initial_weights": r"before training: the weights of rank 1 .* first in",
    "uneven_shards": r"step 2 .* computed by no rank; utterance \d+ was assigned to rank 1",
    "loader_runs_dry": r"step 2: rank 1 .* ran out of data before the others",
}


def faulty_job(features: Path, folder: Path, recipe: str = "acoustic") -> Job:
    """A job of two steps per epoch, checked at steps 1, 4, 8 and 12."""
    folder.mkdir()
    job = tiny_job(recipe, features, folder, steps=12, checkpoint_every=4, validate_every=12)
    job.write(folder / "job.json")
    return job


def verdict(fault: str, code: int, output: str) -> tuple[bool, str]:
    """Whether the training ended as expected, and its error."""
    said = sorted({line.removeprefix("error: ") for line in output.splitlines() if line.startswith("error: ")})
    if fault == "none":
        held = code == 0 and not said
    else:
        # Two separate worlds: torchrun may end the second before it reports.
        most = 2 if fault == "wrong_world_size" else 1
        told = all(re.search(CAUSES[fault], error) and names_a_rank(error) for error in said)
        held = code != 0 and 1 <= len(said) <= most and told
    return held, " / ".join(said)


def names_a_rank(error: str) -> bool:
    return re.search(rf"rank \d on {re.escape(platform.node())} \((cpu|cuda)", error) is not None
