"""Prepare a corpus on two network namespaces, with the scheduler on their bridge.

python -m tests.extras.cluster.two_machines PROJECT LOGS none|"a machine dies"
"""

import os
import subprocess
import sys
from pathlib import Path

from testbed.machines import BRIDGE, Machine, enter, machines
from tests.support.cluster import outside
from tests.support.imports import ROOT
from tests.support.prepared_corpus import cached, finish, start_prepare
from tests.support.waiting import wait_until

ADDRESS = f"tcp://{BRIDGE}:8786"
CLI = [sys.executable, "-m", "sonorant.cli.main"]


def main(project: Path, logs: Path, disturbance: str) -> None:
    environment = outside(os.environ) | {"PYTHONPATH": str(ROOT)}
    with machines("east", "west") as made, (logs / "scheduler.log").open("wb") as log:
        scheduler = subprocess.Popen([*CLI, "scheduler", "--host", BRIDGE], env=environment, stdout=log, stderr=log)
        try:
            for machine in made:
                machine.start([*CLI, "worker", ADDRESS], ROOT, environment, logs / f"{machine.name}.log")
            wait_until(lambda: all(joined(machine, logs) for machine in made))
            stage = start_prepare(project, ADDRESS)
            if disturbance != "none":
                wait_until(lambda: cached(project) > 20 or stage.poll() is not None)
                assert stage.poll() is None, "too late to disturb it"
                made[1].kill()
            finish(stage)
        finally:
            scheduler.kill()


def joined(machine: Machine, logs: Path) -> bool:
    return "Registered to" in (logs / f"{machine.name}.log").read_text(errors="replace")


if __name__ == "__main__":
    enter()
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
