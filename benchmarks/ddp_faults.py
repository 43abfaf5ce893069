"""Does training on several ranks notice every way in which they can fail to train together?

    python -m benchmarks.ddp_faults

Plants each fault (see `tests.support.faulty_worker`) in a training of a tiny model of every recipe, on two processes
under torchrun. A fault is caught if the training ends by itself with one error that names a rank, its machine and the
cause. Without a fault the training must finish.
"""

import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tqdm import tqdm

from benchmarks.processes import ROOT, torchrun
from benchmarks.report import command, finish, options
from sonorant.training.distributed.launch import environment
from sonorant.training.worker import Job
from tests.support.ports import free_port
from tests.support.tiny_training import RECIPES, tiny_features, tiny_job
from tests.support.waiting import PATIENCE

CAUSES = {
    "wrapper_bypassed": r"does not average its gradients",
    "wrapper_bypassed_later": r"step 8: the gradients of .* were not averaged",
    "same_data_on_two_ranks": r"step 1 .* computed more than once, .* the ranks see the same data",
    "node_local_slicing": r"step 1 .* more than once, .*local rank 0\) and by .*local rank 0\): "
    "the ranks see the same data",
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
SHORT = {"only": ["none", "same_data_on_two_ranks"]}


def main() -> None:
    """Plant all faults in every recipe and print the verdict."""
    parser = command(__doc__)
    known = ["none", *CAUSES]
    parser.add_argument("--only", nargs="+", choices=known, default=known, help="plant only these faults")
    parser.add_argument("--recipes", nargs="+", choices=RECIPES, default=RECIPES, help="default: all")
    arguments = options(parser, SHORT)
    result: dict[str, dict[str, Any]] = {fault: {} for fault in arguments.only}
    with tempfile.TemporaryDirectory() as folder:
        features = tiny_features(Path(folder))
        for fault, recipe in tqdm([(f, r) for f in arguments.only for r in arguments.recipes], desc="faults"):
            job = faulty_job(features, Path(folder) / f"{fault}-{recipe}", recipe)
            result[fault][recipe] = row = verdict(fault, *train(fault, job))
            print(f"{recipe}, {fault}: {row['said'] or 'trained to its end'}", file=sys.stderr)
    held = {fault: all(row["held"] for row in rows.values()) for fault, rows in result.items()}
    claims = {"without a fault training ends well": held.pop("none")} if "none" in held else {}
    claims |= {f"caught in every recipe: {fault.replace('_', ' ')}": caught for fault, caught in held.items()}
    found = {"planted": len(held), "caught": sum(held.values()), "recipes": arguments.recipes, "faults": result}
    finish("ddp_faults", found, claims, arguments, measures=False)


def faulty_job(features: Path, folder: Path, recipe: str = "acoustic") -> Job:
    """A training of two steps an epoch, with a check at steps 1, 4, 8 and 12."""
    folder.mkdir()
    job = tiny_job(recipe, features, folder, steps=12, checkpoint_every=4, validate_every=12)
    job.write(folder / "job.json")
    return job


def train(fault: str, job: Job) -> tuple[int, str, float]:
    """Train with a fault on two ranks of one node, or on two nodes if the fault needs them; exit code, output and
    seconds."""
    start = time.monotonic()
    common = {**os.environ, "OMP_NUM_THREADS": "1"}
    nodes = [common | {"PET_NPROC_PER_NODE": "2"}]
    if fault == "node_local_slicing":
        port = str(free_port())
        common |= {"PET_NNODES": "2", "PET_MASTER_ADDR": "127.0.0.1", "PET_MASTER_PORT": port}
        nodes = [common | {"PET_NPROC_PER_NODE": "1", "PET_NODE_RANK": rank} for rank in "01"]
    command = torchrun(Path(job.run).parent / "job.json", fault, worker="tests.support.faulty_worker")
    pipes: dict[str, Any] = {"text": True, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    agents = [subprocess.Popen(command, cwd=ROOT, env=environment(node, 2), **pipes) for node in nodes]
    try:
        outputs = [agent.communicate(timeout=PATIENCE)[0] for agent in agents]
    except subprocess.TimeoutExpired:
        outputs = [f"no end within {PATIENCE:g} s"]
    finally:
        for agent in agents:
            agent.terminate()
            agent.wait()
    return max(abs(agent.returncode) for agent in agents), "".join(outputs), time.monotonic() - start


def verdict(fault: str, code: int, output: str, seconds: float) -> dict[str, Any]:
    """Whether the training ended as it must with this fault, and its error."""
    said = sorted({line.removeprefix("error: ") for line in output.splitlines() if line.startswith("error: ")})
    if fault == "none":
        held = code == 0 and not said
    else:
        # Of two worlds each speaks for itself, unless torchrun ends it for the other's error before.
        most = 2 if fault == "wrong_world_size" else 1
        told = all(re.search(CAUSES[fault], error) and names_a_rank(error) for error in said)
        held = code != 0 and 1 <= len(said) <= most and told
    return {"held": held, "said": " / ".join(said).replace(platform.node(), "<host>"), "seconds": round(seconds, 1)}


def names_a_rank(error: str) -> bool:
    """Whether an error names a rank, its machine and its device."""
    return re.search(rf"rank \d on {re.escape(platform.node())} \((cpu|cuda)", error) is not None


if __name__ == "__main__":
    main()
