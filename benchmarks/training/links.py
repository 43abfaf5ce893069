"""How well does training use several machines, over which link?

    python -m benchmarks links

The machines are network namespaces (testbed/machines.py) with one core each; the kernel's token buckets limit the
bandwidth of their links. An acoustic model of two sizes is trained for a few steps on one, two and four machines.
Efficiency is the speed relative to one machine, divided by the number of cores. A step's time is modelled as
computation, plus the ring exchange of gradients (`planning/hardware.py`) as far as the backward pass cannot hide it,
plus the processors' time per byte: two numbers, fitted to all runs. The model is judged on each link with the numbers
fitted to the others.
"""

import itertools
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.processes import ROOT, torchrun
from benchmarks.report import command, finish, options
from sonorant.extras.planning.hardware import Link, ring
from sonorant.families.parallel.acoustic import AcousticConfig
from sonorant.families.parallel.acoustic_training import AcousticTrainConfig
from sonorant.files import read_json
from sonorant.training.worker import Job, recipe_of
from tasks import params
from testbed.machines import Machine, enter, machines, why_not
from testbed.processes import isolated
from testbed.synthetic_corpus import SPEECH, write_corpus

MICRO_BATCHES = 4
"""Number per step, so that four machines have one each."""
SIZES = {"2.4 M": 192, "20 M": 556}
"""Number of parameters to channels of the acoustic model."""
UNSHAPED = "unshaped"
BANDWIDTHS = {"10 Gbit/s": 10e9, "1 Gbit/s": 1e9}
"""Bits per second."""
AIM = 0.9
"""Target efficiency for 20 M parameters at 1 Gbit/s between two one-core machines."""
MOST_ERROR = 0.25
"""Maximum median error claimed for a step's time over a link that the model was not fitted to."""
SHORT = {"steps": 2, "rounds": 1, "sizes": ["2.4 M"], "machines": [2]}


@dataclass(frozen=True, kw_only=True)
class Run:
    size: str
    machines: int
    link: str = UNSHAPED


@dataclass(frozen=True, kw_only=True)
class Measured:
    seconds: float
    """Seconds per step."""
    backward: float
    """Seconds per step in the backward pass."""
    bytes: float
    """Bytes of gradients."""


def shape(machine: Machine, link: str) -> None:
    """Limit the bandwidth of a machine's only link."""
    machine.run("tc", "qdisc", "del", "dev", "eth0", "root", check=False)
    if link in BANDWIDTHS:
        bucket = ("tbf", "rate", f"{BANDWIDTHS[link]:.0f}bit", "burst", "1mb", "latency", "50ms")
        machine.run("tc", "qdisc", "add", "dev", "eth0", "root", *bucket)


def train(run: Run, members: Sequence[Machine], features: Path, folder: Path, steps: int) -> Measured:
    model = asdict(params.load("acoustic", AcousticConfig)) | {"channels": SIZES[run.size]}
    train = asdict(params.load("train_acoustic", AcousticTrainConfig))
    train |= {"precision": "fp32", "micro_batches_per_step": MICRO_BATCHES}
    same: Any = {"run": "", "out": "", "fingerprint": "", "provenance": {}}
    job = Job(recipe="acoustic", model=model, train=train, features=str(features), **same)
    file = folder / "job.json"
    job.write(file)
    for machine in members:
        shape(machine, run.link)
    running = []
    for rank, machine in enumerate(members):
        environment = isolated() | {
            "OMP_NUM_THREADS": "1",
            "GLOO_SOCKET_IFNAME": "eth0",
            "PET_NPROC_PER_NODE": "1",
            "PET_NNODES": str(len(members)),
            "PET_NODE_RANK": str(rank),
            "PET_MASTER_ADDR": members[0].address,
            "PET_MASTER_PORT": "29511",
        }
        words = torchrun(file, steps, 1, worker="benchmarks.training.training_worker")
        log = folder / f"{machine.name}.log"
        log.write_bytes(b"")
        running.append((machine.start(words, ROOT, environment, log), log))
    for process, log in running:
        if process.wait(timeout=900):
            raise SystemExit(f"{run} did not train:\n{log.read_text(errors='replace')[-3000:]}")
    reached = read_json(folder / "reached.json")
    parameters = sum(parameter.numel() for parameter in recipe_of(job).model.parameters())
    seconds = 1 / reached["steps_per_second"]
    return Measured(seconds=seconds, backward=seconds * reached["shares"]["backward"], bytes=4.0 * parameters)


class Model:
    """Predicts a step's time on several machines from that on one, by the exchange that is not hidden and the cost
    of bytes."""

    def __init__(self, alone: dict[str, Measured], cores: int) -> None:
        """`alone`: measurements on one machine, by size."""
        self.alone, self.cores = alone, cores
        self.hidden, self.per_byte = 0.5, 1e-9
        """Fraction of the backward pass that can hide the exchange, and processor seconds per byte."""

    def seconds(self, run: Run) -> float:
        waiting, handled = self._parts(run)
        return waiting + self.per_byte * handled

    def _parts(self, run: Run) -> tuple[float, float]:
        """Seconds of computing and waiting, and bytes handled by each processor."""
        alone, n = self.alone[run.size], run.machines
        at_once = min(n, self.cores)
        bandwidth = BANDWIDTHS.get(run.link, float("inf")) / 8
        wire = ring(n, alone.bytes, Link(bandwidth=bandwidth, latency=0.0))
        exposed = max(wire - self.hidden * alone.backward / at_once, 0.0)
        return alone.seconds / at_once + exposed, 2 * (n - 1) * alone.bytes / at_once

    def fit(self, measured: dict[Run, float]) -> "Model":
        """Fit to seconds of steps, minimising squared relative errors: the best price for each hidden fraction."""
        took = np.array(list(measured.values()))
        best = np.inf
        for hidden in np.linspace(0.0, 1.0, 201):
            self.hidden = float(hidden)
            waiting, handled = np.array([self._parts(run) for run in measured]).T / took
            per_byte = max(float(handled @ (1 - waiting) / (handled @ handled)), 0.0)
            error = float(np.square(waiting + per_byte * handled - 1).sum())
            if error < best - 1e-12:
                best, found = error, (self.hidden, per_byte)
        self.hidden, self.per_byte = found
        return self


def measure(sizes: Sequence[str], counts: Sequence[int], rounds: int, steps: int, folder: Path) -> dict[Run, Measured]:
    write_corpus(folder / "features", SPEECH, 240, (2.0, 6.0))
    found: dict[Run, list[Measured]] = {}
    names = ("node-a", "node-b", "node-c", "node-d")[: max(counts)]
    with machines(*names) as members:
        runs = [
            Run(size=size, machines=count, link=link)
            for size in sizes
            for count in (1, *counts)
            for link in ([UNSHAPED, *BANDWIDTHS] if count > 1 else [UNSHAPED])
        ]
        for _, run in itertools.product(range(rounds), runs):
            taken = train(run, members[: run.machines], folder / "features", folder, steps)
            found.setdefault(run, []).append(taken)
            print(f"{run}: {taken.seconds:.2f} s a step", file=sys.stderr, flush=True)
    return {
        run: Measured(
            seconds=median(one.seconds for one in taken),
            backward=median(one.backward for one in taken),
            bytes=taken[0].bytes,
        )
        for run, taken in found.items()
    }


def judge(measured: dict[Run, Measured]) -> tuple[dict[str, Any], dict[str, bool]]:
    cores = len(os.sched_getaffinity(0))
    alone = {run.size: taken for run, taken in measured.items() if run.machines == 1}
    several = {run: taken.seconds for run, taken in measured.items() if run.machines > 1}
    efficiency = {run: alone[run.size].seconds / (min(run.machines, cores) * took) for run, took in several.items()}
    rows, errors = [], []
    for run, took in several.items():
        others = {other: value for other, value in several.items() if other.link != run.link}
        told = Model(alone, cores).fit(others).seconds(run) if others else float("nan")
        errors.append(abs(told / took - 1))
        rows.append({
            "parameters": run.size, "machines": run.machines, "link": run.link, "seconds_a_step": round(took, 3),
            "of_ideal": round(efficiency[run], 3), "told_by_the_other_links": round(told, 3),
        })  # fmt: skip
    model = Model(alone, cores).fit(several)
    wanted = Run(size="20 M", machines=2, link="1 Gbit/s")
    reached = efficiency.get(wanted)
    result = {
        "seconds_a_step_alone": {size: round(taken.seconds, 3) for size, taken in alone.items()},
        "runs": rows,
        "model": {
            "hidden_share_of_the_backward_pass": round(model.hidden, 3),
            "processor_seconds_a_gigabyte": round(1e9 * model.per_byte, 3),
            "median_error_on_other_links": round(float(np.median(errors)), 3),
        },
        "aims": {
            "20 M parameters, two machines of one core, 1 Gbit/s": {
                "aim": f"at least {AIM:g} of ideal",
                "reached": "not run" if reached is None else round(reached, 3),
                "met": None if reached is None else reached >= AIM,
            }
        },
    }
    claim = f"the model tells a step's time over another link within {MOST_ERROR:.0%} (median)"
    return result, {claim: result["model"]["median_error_on_other_links"] <= MOST_ERROR}  # type: ignore[index]


def main() -> None:
    parser = command(__doc__)
    add = parser.add_argument
    add("--steps", type=int, default=6, help="steps of each training (default 6)")
    add("--rounds", type=int, default=2, help="how often all are trained in turn (default 2)")
    add("--sizes", nargs="+", choices=SIZES, default=list(SIZES), help="numbers of parameters")
    add("--machines", nargs="+", type=int, choices=(2, 4), default=[2, 4], help="beside one")
    arguments = options(parser, SHORT)
    if reason := why_not():
        found, claim = {"machines": f"not run: {reason}"}, {"machines could be made": False}
        finish("links", found, claim, arguments, measures=False)
    enter()
    with tempfile.TemporaryDirectory() as folder:
        taken = measure(arguments.sizes, arguments.machines, arguments.rounds, arguments.steps, Path(folder))
        result, claims = judge(taken)
    finish("links", result, claims, arguments)


if __name__ == "__main__":
    main()
