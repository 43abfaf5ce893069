"""A training on two machines survives the loss of one: the other ends, nothing is left running, and the next start ends
with the same bits.

The machines are network namespaces (testbed/machines.py), each with one core and its own working copy. A small voice is
trained on both; in a second training one machine is killed with everything on it.
"""

import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
import yaml

from sonorant.training import checkpoint
from sonorant.training.run_directory import RunDirectory
from testbed.machines import Machine, enter, machines, why_not
from testbed.processes import isolated
from testbed.tiny_training import settings, tiny_features
from tests.infra.prefect_pool import Pool
from tests.support.imports import ROOT
from tests.support.pipeline import copy_of_this_project, git
from tests.support.settings import project_settings
from tests.training.test_kills import identical

STAGE, RUNS = "train_predictor", "train_acoustic"
"""The stage that trains the acoustic model, and the folder of its run directories."""
WITHIN = {"by hand": 60.0, "Prefect": 150.0}
"""Seconds in which the machine that is left must have ended its training, and the flow have said so."""
PATIENCE = 300.0
STEPS = 30


class ByHand:
    """A person types the stage's command on each machine."""

    def __init__(self, copies: dict[Machine, Path], logs: Path) -> None:
        self.copies, self.logs = copies, logs
        self.running: list[subprocess.Popen[bytes]] = []

    def start(self, nodes: int) -> None:
        """The stage's command on each machine, the environment telling each who it is."""
        command = yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"][STAGE]["cmd"].split()
        first = next(iter(self.copies))
        self.running = []
        for rank, (machine, folder) in enumerate(list(self.copies.items())[:nodes]):
            meeting = {"PET_NNODES": str(nodes), "PET_NODE_RANK": str(rank), "PET_MASTER_ADDR": first.address}
            words, log = [sys.executable, *command[1:]], self._log(machine)
            log.write_bytes(b"")
            self.running.append(machine.start(words, folder, environment(folder) | meeting, log))

    def ended(self) -> bool | None:
        """By the exit codes; all must be 0."""
        codes = [process.poll() for process in self.running]
        return None if None in codes else not any(codes)

    def said(self) -> str:
        """Of both machines."""
        return "".join(self._log(machine).read_text(errors="replace") for machine in self.copies)

    def _log(self, machine: Machine) -> Path:
        return self.logs / f"{machine.name}.log"

    def revive(self, machine: Machine) -> None:
        """Nothing runs on an idle machine."""

    def servants(self) -> set[int]:
        """None."""
        return set()


@dataclass
class Scene:
    """Two machines, their copies of the project, and how they are made to train."""

    first: Machine
    second: Machine
    project: Path
    """The first one's copy."""
    way: ByHand | Pool

    @property
    def run(self) -> RunDirectory:
        """Of the training, on the first machine."""
        return RunDirectory(next((self.project / "runs" / RUNS).iterdir()))

    def step(self) -> int:
        """Step of the newest checkpoint; 0 before there is one."""
        if not (self.project / "runs" / RUNS).exists():
            return 0
        paths = checkpoint.existing(self.run.checkpoints)
        return int(re.findall(r"\d+", paths[0].name)[0]) if paths else 0

    def train(self, nodes: int) -> None:
        """Train to the end; if it fails, end the program with what was said."""
        self.way.start(nodes)
        wait(lambda: self.way.ended() is not None, self)
        if not self.way.ended():
            raise SystemExit(f"training on {nodes} machines failed:\n{self.way.said()}")

    def result(self) -> dict[str, Any]:
        """The model that was saved, and the state of the last checkpoint."""
        return {
            "weights": torch.load(self.project / "models/predictor/weights.pt", weights_only=True),
            "state": checkpoint.load(checkpoint.existing(self.run.checkpoints)[0]),
        }

    def forget(self) -> None:
        """As if nothing had ever been trained here."""
        for name in (f"runs/{RUNS}", "models", ".dvc/cache/runs"):
            shutil.rmtree(self.project / name, ignore_errors=True)
        (self.project / "dvc.lock").unlink(missing_ok=True)  # else DVC takes the model from its cache

    def trainers(self) -> list[psutil.Process]:
        """All processes on the machines that are there for a training."""
        running = [*self.first.processes(), *self.second.processes()]
        return [process for process in running if process.pid not in self.way.servants()]


def wait(condition: Callable[[], bool], scene: Scene) -> float:
    """Wait for the condition; the seconds it took. If it never holds, end the program with what was said."""
    start = time.monotonic()
    while not condition():
        if time.monotonic() - start > PATIENCE:
            raise SystemExit(f"nothing happened for {PATIENCE:g} s:\n{scene.way.said()}")
        time.sleep(0.1)
    return time.monotonic() - start


def play(scene: Scene, kill_at: int) -> dict[str, Any]:
    """Train undisturbed, then with one machine killed, then resume; compare the ends."""
    scene.train(2)
    peace = scene.result()
    scene.forget()
    scene.way.start(2)
    wait(lambda: scene.step() >= kill_at or scene.way.ended() is not None, scene)
    killed_at = scene.step()
    if not killed_at:
        raise SystemExit(f"training on two machines ended before it could be killed:\n{scene.way.said()}")
    scene.second.kill()
    died = time.monotonic()
    wait(lambda: scene.way.ended() is not None, scene)
    ended = time.monotonic() - died
    gone = ended + wait(lambda: not scene.trainers(), scene)
    errors = errors_in(scene.way.said())
    print(f"killed at step {killed_at}, ended {ended:.1f} s later: {' / '.join(errors)}", file=sys.stderr, flush=True)
    saved = scene.step()
    scene.way.revive(scene.second)
    scene.train(2)
    resumed = re.findall(r"resuming acoustic from its checkpoint at step (\d+)", scene.way.said())
    after = scene.result()
    return {
        "killed_after_step": killed_at,
        "seconds_until_it_said_so": round(ended, 1),
        "seconds_until_no_process_was_left": round(gone, 1),
        "errors": errors,
        "resumed_at": int(resumed[0]) if resumed else None,
        "last_checkpoint": saved,
        "weights_identical": identical(peace["weights"], after["weights"]),
        "states_identical": identical(peace["state"], after["state"]),
    }


def errors_in(said: str) -> list[str]:
    """The commands' own error lines, without what Prefect adds."""
    return [line.strip() for line in said.splitlines() if line.startswith("error: ")]


def project(folder: Path, steps: int) -> Path:
    """A working copy with a small voice to train in `folder`, its features in DVC's remote beside it."""
    copy_of_this_project(folder)
    (folder / "dvc.lock").unlink(missing_ok=True)
    store = tiny_features(folder.parent)
    stages = yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"]
    given = f"mkdir -p data/codes && touch data/codes/none && cp -r {store} data/features"
    graph = {
        "external": stages["external"],
        "features": {"cmd": given, "outs": ["data/features", "data/codes"]},
        STAGE: stages[STAGE],
    }
    (folder / "dvc.yaml").write_text(yaml.safe_dump({"stages": graph}))
    params = project_settings()
    # Large enough that a step is mostly computing, as on real machines.
    model, train = settings("acoustic", channels=96, steps=steps, checkpoint_every=10, validate_every=steps)
    params["acoustic"], params[RUNS] = params["acoustic"] | model, params[RUNS] | train
    (folder / "params.yaml").write_text(yaml.safe_dump(params))
    dvc(folder, "remote", "add", "-q", "-d", "store", str(folder.parent / "remote"))
    git(folder, "-c", "user.name=benchmark", "-c", "user.email=benchmark@localhost", "commit", "-qam", "a small voice")
    dvc(folder, "repro", "-q", "features")
    dvc(folder, "push", "-q", "features")
    return folder


def copy_for(folder: Path, original: Path) -> Path:
    """The second machine's working copy, as git and DVC bring it there."""
    git(original, "clone", "-q", str(original), str(folder))
    shutil.copy(original / "dvc.lock", folder)
    dvc(folder, "pull", "-q", "features")
    (folder / "dvc.lock").unlink()
    return folder


def dvc(folder: Path, *words: str) -> None:
    """Run DVC in `folder`."""
    subprocess.run([sys.executable, "-m", "dvc", *words], cwd=folder, env=environment(folder), check=True)


def environment(folder: Path) -> dict[str, str]:
    """The environment of a command in a working copy."""
    return isolated(folder) | {"PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1"}


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("way", list(WITHIN))
def test_the_loss_of_a_machine_costs_no_bit(way: str, tmp_path: Path) -> None:
    if reason := why_not():
        pytest.skip(f"machines cannot be made: {reason}")
    command = [sys.executable, "-m", "tests.infra.test_two_machines", way, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)  # `enter` changes the process for good
    assert done.returncode == 0, done.stderr
    found, most = json.loads(done.stdout.splitlines()[-1]), WITHIN[way]
    assert max(found["seconds_until_it_said_so"], found["seconds_until_no_process_was_left"]) <= most
    assert len(found["errors"]) == 1 and "training failed after step" in found["errors"][0]
    assert (found["resumed_at"] or 0) == found["last_checkpoint"] > 0
    assert found["weights_identical"] and found["states_identical"]


def main(way: str, folder: Path) -> None:
    """Play it in a process of its own and print what was found."""
    enter()
    with machines("node-a", "node-b") as (first, second):
        one = project(folder / "node-a", STEPS)
        copies = {first: one, second: copy_for(folder / "node-b", one)}
        if way == "by hand":
            found = play(Scene(first, second, one, ByHand(copies, folder)), STEPS // 3)
        else:
            with Pool(copies, folder, environment) as pool:
                found = play(Scene(first, second, one, pool), STEPS // 3)
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
