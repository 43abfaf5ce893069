"""`sonorant prepare`, `train`, `export` and `evaluate`: run stages of the project's dvc.yaml with DVC."""

import argparse
import os
import signal
import sys
from importlib.util import find_spec
from pathlib import Path

from sonorant.errors import SonorantError, Stopped, install
from sonorant.processes import STOPPED, UNDER, run_stoppable

STAGES = {
    "prepare": (("features", "recognize_recordings"), "Check the recordings, audit them, and compute features."),
    "train": (("train_waveform", "train_predictor"), "Train both models; an interrupted training continues."),
    "export": (("verify",), "Quantise both models, write every precision as ONNX, and check each against torch."),
    "evaluate": (
        ("choose", "report"),
        "Measure the quality of all precisions, choose one to ship, and write the report.",
    ),
}
"""For each command, the last stages to run and a summary."""
PROGRAMS = {
    "register": "register the voice as a version in the registry, with its metrics and samples",
    "promote": "make a registered voice the champion if it passes the gates",
    "rollback": "restore the previous champion",
    "params": "print every setting of params.yaml with its default, value and meaning",
}
"""Commands that run the module of the same name in tasks/."""


def add_pipeline(commands: argparse._SubParsersAction) -> None:
    for name, (targets, summary) in STAGES.items():
        command = commands.add_parser(
            name,
            help=summary[0].lower() + summary[1:-1],
            description=f"{summary} Runs the outdated stages of dvc.yaml up to: {', '.join(targets)}.",
            epilog=f"example: sonorant {name}",
        )
        command.set_defaults(run=_repro, targets=targets)


def _repro(arguments: argparse.Namespace) -> None:
    if not Path("dvc.yaml").is_file():
        raise SonorantError("dvc.yaml: no such file; run this command in the project folder")
    if find_spec("dvc") is None:
        raise SonorantError(f"dvc.yaml requires dvc; run: {install('pipeline')}")
    for folder in (Path.cwd(), Path.cwd() / ".dvc"):  # DVC would offer its support
        if not os.access(folder, os.W_OK, effective_ids=True):
            raise SonorantError(f"{folder}: cannot be written; change its permissions")
    # Stages run `python`, which must be that of this environment.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    command = [sys.executable, "-m", "dvc", "repro", *arguments.targets]
    # SIGINT, since DVC keeps its locks on SIGTERM; once, in a group of its own.
    status, stopped = run_stoppable(
        command,
        lambda child: os.killpg(child.pid, signal.SIGINT),
        env=os.environ | {"PATH": path, UNDER: "sonorant"},
        process_group=0,
    )
    if stopped and status:
        raise Stopped(STOPPED)
    raise SystemExit(status)
