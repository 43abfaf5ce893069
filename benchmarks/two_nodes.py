"""Does a training on two machines survive the loss of one? The other must end, nothing may be left running, and the
next start must end with the same bits.

    python -m benchmarks.two_nodes              # through Prefect: a server, a worker a machine, train-and-export
    python -m benchmarks.two_nodes --by-hand    # the stage's command on each machine, with PET_* set

The two machines are network namespaces (tests/support/machines.py), each with one core and its own working copy of the
project. A small voice is trained on both for real; in a second training one machine is killed with everything on it.
The speed-up of two machines over one is printed too.
"""

import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import torch
import yaml

from benchmarks.exact_resume import identical
from benchmarks.prefect_pool import Pool
from benchmarks.processes import ROOT, isolated
from benchmarks.report import command, finish, options
from sonorant.training import checkpoint
from sonorant.training.run_directory import RunDirectory, read_metrics
from tests.support.machines import Machine, enter, machines, why_not
from tests.support.pipeline import copy_of_this_project, git
from tests.support.tiny_training import settings, tiny_features

STAGE, RUNS = "train_predictor", "train_acoustic"
"""The stage that trains the acoustic model, and the folder of its run directories."""
WITHIN = {"by hand": 60.0, "Prefect": 150.0}
"""Seconds in which the machine that is left must have ended its training, and the flow have said so."""
PATIENCE = 300.0
WARM_UP = 10
"""Steps that are left out where speed is measured."""
SHORT = {"by_hand": True, "steps": 30}


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

    def steps_per_second(self) -> float:
        """Of the training that just ended, between its first steps and its last."""
        rows = [row for row in read_metrics(self.run.metrics) if "train/loss" in row["metrics"]]
        rows = [row for row in rows if row["step"] >= WARM_UP]
        return (rows[-1]["step"] - rows[0]["step"]) / (rows[-1]["time"] - rows[0]["time"])

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


def play(scene: Scene, kill_at: int, one_too: bool) -> dict[str, Any]:
    """Train undisturbed, then with one machine killed, then resume; compare the ends."""
    scene.train(2)
    peace, speed = scene.result(), scene.steps_per_second()
    print(f"two machines: {speed:.2f} steps/s; now one is killed", file=sys.stderr, flush=True)
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
    result = {
        "killed_after_step": killed_at,
        "seconds_until_it_said_so": round(ended, 1),
        "seconds_until_no_process_was_left": round(gone, 1),
        "errors": errors,
        "resumed_at": int(resumed[0]) if resumed else None,
        "last_checkpoint": saved,
        "weights_identical": identical(peace["weights"], after["weights"]),
        "states_identical": identical(peace["state"], after["state"]),
        "steps_per_second_two": round(speed, 2),
        "steps_per_second_one": "not run: left out with --by-hand",
        "scaling_efficiency": "not run: left out with --by-hand",
    }
    if one_too:
        scene.forget()
        scene.train(1)
        one = scene.steps_per_second()
        result |= {"steps_per_second_one": round(one, 2), "scaling_efficiency": round(speed / (2 * one), 2)}
    return result


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
    params = yaml.safe_load((ROOT / "params.yaml").read_text())
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


def main() -> None:
    """Play it and print the verdict."""
    parser = command(__doc__)
    without = "without Prefect, and without the training on one machine"
    parser.add_argument("--by-hand", action="store_true", help=without)
    parser.add_argument("--steps", type=int, default=120, help="optimizer steps (default 120)")
    arguments = options(parser, SHORT)
    if reason := why_not():
        found, claim = {"machines": f"not run: {reason}"}, {"two machines could be made": False}
        finish("two_nodes", found, claim, arguments, measures=False)
    enter()
    way, kill_at = "by hand" if arguments.by_hand else "Prefect", arguments.steps // 3
    with tempfile.TemporaryDirectory() as name, machines("node-a", "node-b") as (first, second):
        folder = Path(name)
        one = project(folder / "node-a", arguments.steps)
        copies = {first: one, second: copy_for(folder / "node-b", one)}
        if arguments.by_hand:
            result = play(Scene(first, second, one, ByHand(copies, folder)), kill_at, one_too=False)
        else:
            with Pool(copies, folder, environment) as pool:
                result = play(Scene(first, second, one, pool), kill_at, one_too=True)
    most = WITHIN[way]
    claims = {
        f"when a machine dies the training ends within {most:g} s": result["seconds_until_it_said_so"] <= most,
        "it says so in one line": len(result["errors"]) == 1 and "training failed after step" in result["errors"][0],
        f"no process is left after {most:g} s": result["seconds_until_no_process_was_left"] <= most,
        "the next start resumes from the last checkpoint": (result["resumed_at"] or 0) == result["last_checkpoint"] > 0,
        "the weights equal those of an undisturbed training to the bit": result["weights_identical"],
        "so do average and optimizers": result["states_identical"],
    }
    finish("two_nodes", {"way": way, "steps": arguments.steps, **result}, claims, arguments, measures=False)


if __name__ == "__main__":
    main()
