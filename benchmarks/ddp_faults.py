"""That training on several ranks notices every way in which they may fail to train together.

    python -m benchmarks.ddp_faults

Plants each fault (see `tests.support.faulty_worker`) in a training of a tiny model on two processes under torchrun. It is
caught if the training ends by itself, with one error that names a rank, its machine and the cause. Without a fault it
must run to its end.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tqdm import tqdm

from benchmarks.report import finish, save_option
from sonorant.training.distributed.launch import environment
from sonorant.training.worker import Job
from tests.support.tiny_training import tiny_features, tiny_job

ROOT = Path(__file__).parents[1]
CAUSES = {
    "wrapper_bypassed": r"does not average its gradients",
    "wrapper_bypassed_later": r"step 8: the gradients of .* were not averaged",
    "same_data_on_two_ranks": r"step 1 .* computed more than once, .* the ranks see the same data",
    "node_local_slicing": r"step 1 .* computed more than once, .*local rank 0\) and by .*local rank 0\): the ranks see the same data",
    "never_reshuffled": r"epochs 0 to 3 are planned alike",
    "epoch_never_set": r"step 3 \(epoch 1\): rank 0 .* computed epoch 0 again",
    "two_ranks_on_one_device": r"has the same device as rank 0",
    "wrong_world_size": r"2 ranks were to train together but 1 met",
    "one_replica_drifts": r"step 8: the weights of rank 1 .* are not those of the other ranks, first in",
    "average_drifts": r"step 8: the average of rank 1 .* are not those of the other ranks, first in",
    "other_initial_weights": r"do not start from the same weights: the weights of rank 1 .* first in",
    "uneven_shards": r"step 2 .* computed by no rank, utterance \d+ was dealt to rank 1",
    "loader_runs_dry": r"step 2: rank 1 .* ran out of data before the others",
}
"""What the error of each fault must say."""
PATIENCE = 300
"""Seconds after which a training has hung."""


def main() -> None:
    """Plant all faults and print the verdict."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--only", choices=["none", *CAUSES], action="append", help="plant only this fault; may be given again"
    )
    save_option(parser)
    arguments = parser.parse_args()
    result = {}
    with tempfile.TemporaryDirectory() as folder:
        features = tiny_features(Path(folder))
        for fault in tqdm(arguments.only or ["none", *CAUSES], desc="faults", unit="fault"):
            result[fault] = verdict(fault, *train(fault, faulty_job(features, Path(folder) / fault)))
            print(f"{fault}: {result[fault]['said'] or 'trained to its end'}", file=sys.stderr)
    claims = {"without a fault training ends well": result.pop("none", {"held": True})["held"]}
    claims |= {f"caught: {fault.replace('_', ' ')}": row["held"] for fault, row in result.items()}
    caught = sum(row["held"] for row in result.values())
    finish("ddp_faults", {"planted": len(result), "caught": caught, "faults": result}, claims, arguments.save)


def faulty_job(features: Path, folder: Path) -> Job:
    """A training of two steps an epoch, with a check at steps 1, 4, 8 and 12."""
    folder.mkdir()
    job = tiny_job("acoustic", features, folder, steps=12, checkpoint_every=4, validate_every=12)
    job.write(folder / "job.json")
    return job


def train(fault: str, job: Job) -> tuple[int, str, float]:
    """Train with a fault on two ranks of one node or, where that is the fault, on two nodes of one; exit code, output
    and seconds."""
    start = time.monotonic()
    job_file = Path(job.run).parent / "job.json"
    common = {**os.environ, "OMP_NUM_THREADS": "1"}
    nodes = [common | {"PET_NPROC_PER_NODE": "2"}]
    if fault == "node_local_slicing":
        meeting = {
            "PET_NNODES": "2",
            "PET_MASTER_ADDR": "127.0.0.1",
            "PET_MASTER_PORT": str(free_port()),
            "PET_NPROC_PER_NODE": "1",
        }
        nodes = [common | meeting | {"PET_NODE_RANK": str(number)} for number in range(2)]
    command = [
        sys.executable,
        "-m",
        "sonorant.training.distributed.agent",
        "-m",
        "tests.support.faulty_worker",
        str(job_file),
        fault,
    ]
    agents = [
        subprocess.Popen(
            command, cwd=ROOT, env=environment(node, 2), text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        for node in nodes
    ]
    try:
        outputs = [agent.communicate(timeout=PATIENCE)[0] for agent in agents]
    except subprocess.TimeoutExpired:
        outputs = [f"no end within {PATIENCE} s"]
    finally:
        for agent in agents:
            agent.terminate()
            agent.wait()
    return max(abs(agent.returncode) for agent in agents), "".join(outputs), time.monotonic() - start


def verdict(fault: str, code: int, output: str, seconds: float) -> dict[str, Any]:
    """Whether the training ended as it must with this fault, and the error it ended with."""
    said = sorted({line.removeprefix("error: ") for line in output.splitlines() if line.startswith("error: ")})
    if fault == "none":
        held = code == 0 and not said
    else:
        worlds = (
            2 if fault == "wrong_world_size" else 1
        )  # each speaks for itself, unless torchrun ends it for the other's error before
        held = (
            code != 0
            and 1 <= len(said) <= worlds
            and all(re.search(CAUSES[fault], error) and names_a_rank(error) for error in said)
        )
    return {"held": held, "said": " / ".join(said).replace(platform.node(), "<host>"), "seconds": round(seconds, 1)}


def names_a_rank(error: str) -> bool:
    """Whether an error says on which rank, machine and device it was."""
    return re.search(rf"rank \d on {re.escape(platform.node())} \((cpu|cuda)", error) is not None


def free_port() -> int:
    """A port that nothing listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


if __name__ == "__main__":
    main()
