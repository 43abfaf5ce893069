"""The command `sonorant doctor`."""

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from sonorant.errors import install
from sonorant.extras.doctor.finding import Finding, counts, not_run, table

EXAMPLES = """\
examples:
  sonorant doctor                                    check versions, machine and gradient averaging
  sonorant doctor --data data/features --runs runs   also check the disks of these folders
  sonorant doctor --json > machine.json              exit status 1 if there is a problem
"""


def add_doctor(commands: argparse._SubParsersAction) -> None:
    doctor = commands.add_parser(
        "doctor",
        help="check this machine before training",
        description="Check that this machine is ready for training, and suggest a remedy for each problem.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = doctor.add_argument
    add("--data", type=Path, metavar="FOLDER", help="feature store whose reading speed to measure")
    add("--runs", type=Path, metavar="FOLDER", help="folder of run directories whose disk to check")
    add(
        "--lock",
        type=Path,
        default=Path("requirements.lock"),
        metavar="FILE",
        help="file of locked versions; default requirements.lock",
    )
    ranks = "skip the test of gradient averaging, which takes about ten seconds"
    add("--no-ranks", dest="ranks", action="store_false", help=ranks)
    add("--json", action="store_true", help="print one JSON object instead of a table")
    doctor.set_defaults(run=_run_doctor)


def _run_doctor(arguments: argparse.Namespace) -> None:
    areas = examine(arguments.data, arguments.runs, arguments.lock, arguments.ranks)
    totals = counts(areas)
    if arguments.json:
        findings = [{"area": area, **asdict(finding)} for area, found in areas.items() for finding in found]
        print(json.dumps({"findings": findings, "counts": totals}, indent=2, ensure_ascii=False))
    else:
        print(table(areas))
    if totals["problem"]:
        raise SystemExit(1)


def examine(features: Path | None, runs: Path | None, lock: Path, ranks: bool) -> dict[str, list[Finding]]:
    """Return the findings of each area. `features`: store to read; `runs`: folder of run directories to write to;
    `ranks`: whether to test gradient averaging."""
    try:
        import torch  # noqa: F401
    except ModuleNotFoundError:
        return {"versions": [not_run("torch", "not installed", install("pipeline"))]}
    from sonorant.extras.doctor import gradient_test, machine, software, storage

    areas = {"versions": list(software.examine(lock)), "machine": list(machine.examine())}
    if features or runs:
        read = list(storage.examine_read(features)) if features else []
        areas["storage"] = read + (list(storage.examine_write(runs)) if runs else [])
    return areas | {"ranks": list(gradient_test.examine()) if ranks else [not_run("self-test", "skipped (--no-ranks)")]}
