"""Ctrl-C and SIGTERM."""

import json
import os
import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sonorant.processes import STOPPED
from testbed.tiny_training import tiny_features, tiny_job
from tests.support.imports import ROOT
from tests.support.processes import TOKEN, processes_of, start
from tests.support.waiting import PATIENCE, wait_until

pytest.importorskip("dvc")
STAGES = """\
stages:
  train_waveform:
    cmd: python stage.py
    deps: [stage.py]
    outs: [out.txt]
  train_predictor:
    cmd: "true"
    deps: [out.txt]
"""
POOL = """\
import time
from pathlib import Path
from sonorant.files import atomic_file, write_text
from sonorant.processes import spread
from tasks.stage import run

def work(item):
    with atomic_file(Path("runs/items") / str(item)) as file:
        file.write_text("half")
        if item and not Path("runs/go").exists():
            time.sleep(600)

def main():
    spread(work, range(4), label="work", unit="item", processes=2)
    write_text(Path("out.txt"), "whole")

if __name__ == "__main__":
    run(main)
"""
CONVERT = """\
import logging
torch_log = logging.getLogger("torch.x")
def converted(*work, **how):
    try:
        spread(*work, **how)
    except KeyboardInterrupt:
        torch_log.error("Traceback of an error that torch makes of it")
        raise TypeError("empty() failed") from None
"""
CONVERTED = CONVERT + POOL.replace("    spread(", "    converted(")
TRAINING = """\
from pathlib import Path
from sonorant.files import read_json, write_text
from sonorant.training.distributed import launch
from sonorant.training.worker import Job
from tasks.stage import run

def main():
    launch.WORKER = "tests.training.disturbed_worker"
    launch.launch(Job(**read_json(Path("job.json"))))
    write_text(Path("out.txt"), "whole")

if __name__ == "__main__":
    run(main)
"""
FLOW = """\
from flows.own_prefect import run_flow, use_own_prefect
from tasks.stage import run

def main():
    use_own_prefect()
    from flows.train_and_export import train_and_export
    raise SystemExit(not run_flow(train_and_export, None, None, False).is_completed())

run(main)
"""
COMMANDS = {
    "task": ["stage.py"],
    "dvc": ["-m", "dvc", "repro"],
    "sonorant": ["-m", "sonorant.cli.main", "train"],
    "flow": ["-c", FLOW],
}
CASES = [
    ("task", POOL, os.kill, signal.SIGINT),
    ("task", CONVERTED, os.kill, signal.SIGINT),
    ("dvc", POOL, os.killpg, signal.SIGINT),
    ("sonorant", POOL, os.kill, signal.SIGINT),
    ("sonorant", TRAINING, os.killpg, signal.SIGINT),
    ("sonorant", TRAINING, os.kill, signal.SIGTERM),
    *(
        pytest.param("flow", code, send, signal.SIGINT, marks=[pytest.mark.long, pytest.mark.timeout(3600)])
        for code, send in ((POOL, os.killpg), (TRAINING, os.kill))
    ),
]


def in_work(runs: Path) -> bool:
    """Whether both processes of the pool have half a file, or 20 steps are trained."""
    steps = runs / "run/metrics.jsonl"
    return len(list(runs.glob("items/.*.tmp"))) == 2 or (steps.exists() and '"step": 20' in steps.read_text())


@pytest.mark.parametrize(("command", "code", "send", "number"), CASES)
def test_a_stopped_command_says_so_in_a_line_leaves_nothing_and_goes_on(
    command: str,
    code: str,
    send: Callable[[int, int], None],
    number: int,
    make_project: Callable[..., Path],
) -> None:
    root = make_project("project", STAGES)
    (root / "stage.py").write_text(code)
    if code == TRAINING:
        features = tiny_features(root / "runs")
        tiny_job("acoustic", features, root / "runs", steps=30, checkpoint_every=30).write(root / "job.json")
    words = [sys.executable, *COMMANDS[command]]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "SONORANT_"))}
    path = f"{Path(sys.executable).parent}{os.pathsep}{kept['PATH']}"
    env = kept | {"PATH": path, "PYTHONPATH": str(ROOT), TOKEN: str(root), "DISTURBED": "held", "HELD_AT": "20"}
    with (root / "printed").open("w+") as output:
        process = start(words, cwd=root, env=env, stdout=output, stderr=output, start_new_session=True)
        wait_until(lambda: process.poll() is not None or in_work(root / "runs"))
        send(process.pid, number)
        assert process.wait(PATIENCE) != 0
        printed = (root / "printed").read_text()
        assert "Traceback" not in printed and printed.count("the same command") >= 1 >= printed.count(STOPPED), printed
        saved = re.search(r"stopped and saved (at step 2[12])", printed)  # the ranks agree one step after the signal
        assert code != TRAINING or saved, printed
        wait_until(lambda: not processes_of(root), 5.0)
        assert not (root / "out.txt").exists() and list(root.rglob(".*.tmp")) == []
        lock = root / ".dvc/tmp/rwlock"
        assert not lock.exists() or not any(json.loads(lock.read_text()).values())
        (root / "runs/go").touch()
        again = start(words, cwd=root, env=env | {"HELD_AT": "-1"}, stdout=output, stderr=output)
        assert again.wait(PATIENCE) == 0, (root / "printed").read_text()
    assert (root / "out.txt").read_text() == "whole"
    assert not saved or f"resuming acoustic from its checkpoint {saved[1]}" in (root / "printed").read_text()
