"""A training on two machines survives the loss of one: the other ends, nothing is left running, and the next start
reaches the same bits. The machines are network namespaces (testbed/machines.py), each with one core and a working
copy. One training is undisturbed; in another, one machine is killed."""

import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from sonorant.training import checkpoint
from sonorant.training.run_directory import RunDirectory
from testbed.machines import Machine, enter, machines, why_not
from testbed.processes import isolated
from testbed.tiny_training import settings, tiny_features
from tests.support.imports import ROOT
from tests.support.pipeline import copy_of_this_project
from tests.support.settings import project_settings
from tests.training.trainings import assert_same

STAGE, RUNS = "train_predictor", "runs/train_acoustic"
"""The stage that trains the acoustic model, and the parent of its run directories."""
WITHIN = 60.0
"""Maximum seconds until the remaining machine has ended its training."""
PATIENCE = 300.0
STEPS = 30


class Scene:
    """Two machines with copies of the project, the first one's first; the stage's command runs on each."""

    def __init__(self, copies: dict[Machine, Path]) -> None:
        self.copies, self.project = copies, next(iter(copies.values()))
        self.running: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        command = yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"][STAGE]["cmd"].split()
        first = next(iter(self.copies))
        self.running = []
        for rank, (machine, folder) in enumerate(self.copies.items()):
            environment = isolated(folder) | {"PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1"}
            environment |= {"PET_NNODES": "2", "PET_NODE_RANK": str(rank), "PET_MASTER_ADDR": first.address}
            log = folder / "log"
            log.write_bytes(b"")
            self.running.append(machine.start([sys.executable, *command[1:]], folder, environment, log))

    def ended(self) -> bool:
        return None not in [process.poll() for process in self.running]

    def output(self) -> str:
        return "".join((folder / "log").read_text(errors="replace") for folder in self.copies.values())

    def run(self) -> RunDirectory:
        return RunDirectory(next((self.project / RUNS).iterdir()))

    def step(self) -> int:
        """Step of the newest checkpoint, 0 without one."""
        paths = checkpoint.existing(self.run().checkpoints) if (self.project / RUNS).exists() else []
        return int(re.findall(r"\d+", paths[0].name)[0]) if paths else 0

    def train(self) -> dict[str, Any]:
        """Train to the end; return the saved model and the last checkpoint's state."""
        self.start()
        self.wait(self.ended)
        if any(process.returncode for process in self.running):
            raise SystemExit(f"training on two machines failed:\n{self.output()}")
        return {
            "weights": torch.load(self.project / "models/predictor/weights.pt", weights_only=True),
            "state": checkpoint.load(checkpoint.existing(self.run().checkpoints)[0]),
        }

    def wait(self, condition: Callable[[], bool]) -> float:
        """Wait for the condition; return the seconds."""
        start = time.monotonic()
        while not condition():
            if time.monotonic() - start > PATIENCE:
                raise SystemExit(f"nothing happened for {PATIENCE:g} s:\n{self.output()}")
            time.sleep(0.1)
        return time.monotonic() - start


def play(scene: Scene) -> dict[str, Any]:
    """Train undisturbed, then with one machine killed and resumed; compare the results."""
    peace = scene.train()
    for name in (RUNS, "models"):
        shutil.rmtree(scene.project / name)
    scene.start()
    scene.wait(lambda: scene.step() >= STEPS // 3 or scene.ended())
    if not scene.step():
        raise SystemExit(f"training on two machines ended before it could be killed:\n{scene.output()}")
    first, second = scene.copies
    second.kill()
    seconds = scene.wait(scene.ended) + scene.wait(lambda: not [*first.processes(), *second.processes()])
    errors = [line for line in scene.output().splitlines() if line.startswith("error: ")]
    saved, after = scene.step(), scene.train()
    assert_same(peace, after)
    resumed = re.findall(r"resuming acoustic from its checkpoint at step (\d+)", scene.output())
    return {
        "seconds": seconds,
        "errors": errors,
        "resumed_at": [int(step) for step in resumed],
        "last_checkpoint": saved,
    }


def project(folder: Path) -> Path:
    """Working copy with a small voice, large enough that steps are mostly computation, as on real machines."""
    copy_of_this_project(folder)
    (folder / "data/codes").mkdir(parents=True)
    shutil.copytree(tiny_features(folder.parent), folder / "data/features", symlinks=True)
    params = project_settings()
    model, train = settings("acoustic", channels=96, steps=STEPS, checkpoint_every=10, validate_every=STEPS)
    params["acoustic"], params["train_acoustic"] = params["acoustic"] | model, params["train_acoustic"] | train
    (folder / "params.yaml").write_text(yaml.safe_dump(params))
    return folder


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_the_loss_of_a_machine_costs_no_bit(tmp_path: Path) -> None:
    if reason := why_not():
        pytest.skip(f"machines cannot be made: {reason}")
    command = [sys.executable, "-m", "tests.infra.test_two_machines", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)  # `enter` changes the process permanently
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["seconds"] <= WITHIN
    assert len(found["errors"]) == 1 and "training failed after step" in found["errors"][0]
    assert found["last_checkpoint"] > 0 and found["resumed_at"] == [found["last_checkpoint"]]


def main(folder: Path) -> None:
    """Play the scene in a separate process and print the results."""
    enter()
    with machines("node-a", "node-b") as (first, second):
        one = project(folder / "node-a")
        print(json.dumps(play(Scene({first: one, second: shutil.copytree(one, folder / "node-b", symlinks=True)}))))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
