"""Each planted fault ends the training with one error, in every recipe.

Ranks are forked from a server with torch imported, which saves seconds.
"""

import multiprocessing
import os
import sys
from pathlib import Path

import pytest
import torch

from testbed.tiny_training import RECIPES
from tests.support import faulty_worker
from tests.support.ports import free_port
from tests.support.waiting import PATIENCE
from tests.training.ddp_faults import CAUSES, faulty_job, verdict

pytestmark = pytest.mark.long

SERVER = multiprocessing.get_context("forkserver")


def run_rank(fault: str, job_file: Path, output: Path, env: dict[str, str]) -> None:
    os.environ.update(env)
    descriptor = os.open(output, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    torch.set_num_threads(1)
    sys.argv = ["tests.support.faulty_worker", str(job_file), fault]
    faulty_worker.main()


def train(fault: str, recipe: str, features: Path, folder: Path) -> tuple[int, str]:
    """The largest exit code and the output of two ranks with a fault."""
    SERVER.set_forkserver_preload(["tests.support.faulty_worker"])
    job_file, output = Path(faulty_job(features, folder / fault, recipe).run).parent / "job.json", folder / "output.txt"
    nodes = 2 if fault == "node_local_slicing" else 1
    common = {"WORLD_SIZE": "2", "SONORANT_WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": str(2 // nodes)}
    common |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    ranks = []
    for rank in range(2):
        local = {"RANK": str(rank), "LOCAL_RANK": str(rank % (2 // nodes))}
        ranks.append(SERVER.Process(target=run_rank, args=(fault, job_file, output, common | local)))
        ranks[-1].start()
    for process in ranks:
        process.join(PATIENCE)
        process.kill()
        process.join()
    return max(abs(process.exitcode or 0) for process in ranks), output.read_text()


ACOUSTIC = [(fault, "acoustic") for fault in ("none", *CAUSES)]
OTHERS = [(fault, recipe) for recipe in RECIPES if recipe != "acoustic" for fault in ("none", "wrapper_bypassed")]


@pytest.mark.parametrize(("fault", "recipe"), [*ACOUSTIC, *OTHERS])
def test_the_fault_is_caught_and_nothing_else(fault: str, recipe: str, features: Path, tmp_path: Path) -> None:
    code, output = train(fault, recipe, features, tmp_path)
    held, _ = verdict(fault, code, output)
    assert held, output
    assert "Traceback" not in output
