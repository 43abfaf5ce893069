"""`sonorant sync-tracking`. Does not know how anything is sent."""

from __future__ import annotations

import argparse
from pathlib import Path


def add(commands: argparse._SubParsersAction) -> None:
    """Add the subcommand."""
    sync = commands.add_parser(
        "sync-tracking",
        help="send to MLflow what runs still owe it, after its server was away",
        description="Send to MLflow what run directories still owe it, each point once. MLFLOW_TRACKING_URI names the server.",
    )
    sync.add_argument(
        "runs",
        nargs="*",
        type=Path,
        default=[Path("runs")],
        metavar="RUN",
        help="run directory, or a folder above run directories (default: runs)",
    )
    sync.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Send what is owed, and say of each run that it has everything."""
    from sonorant.tracking import sync, tracked_runs

    for directory in tracked_runs(arguments.runs):
        print(f"{directory}: MLflow run {sync(directory)} has everything", flush=True)
