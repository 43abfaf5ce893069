"""`sonorant plan`, which the pipeline carries out. Does not know what is planned."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from sonorant.errors import SonorantError


def add(commands: argparse._SubParsersAction) -> None:
    """Add the subcommand."""
    plan = commands.add_parser(
        "plan", help="what a training of params.yaml will take in memory, time and money", add_help=False
    )
    plan.add_argument("-h", "--help", action="store_true", dest="wants_help")
    plan.add_argument("arguments", nargs=argparse.REMAINDER)
    plan.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Settings are read by the pipeline's own code, which is not part of the library but of the folder that params.yaml
    is in."""
    if not Path("tasks/plan.py").is_file():
        raise SonorantError(
            "sonorant plan: needs the pipeline; run it in the project's folder, which holds params.yaml and tasks/"
        )
    given = ["--help"] if arguments.wants_help else arguments.arguments
    raise SystemExit(subprocess.run([sys.executable, "-m", "tasks.plan", *given]).returncode)
