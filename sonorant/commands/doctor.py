"""`sonorant doctor`. Does not know what is examined."""

from __future__ import annotations

import argparse
from pathlib import Path

EXAMPLES = """\
examples:
  sonorant doctor                                        versions, devices, this machine, the network, and ranks that average gradients
  sonorant doctor --data data/features --runs runs       the disks of these folders too
  sonorant doctor --json > machine.json                  exit status 1 if there is a problem
"""


def add(commands: argparse._SubParsersAction) -> None:
    """Add the subcommand."""
    doctor = commands.add_parser(
        "doctor",
        help="is this machine in order for training?",
        description="Look at all that training needs of this machine; each finding comes with its mend.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    doctor.add_argument("--data", type=Path, metavar="FOLDER", help="feature store, to measure how fast it is read")
    doctor.add_argument(
        "--runs", type=Path, metavar="FOLDER", help="folder of run directories, to measure how fast it is written"
    )
    doctor.add_argument(
        "--lock", type=Path, default=Path("requirements.lock"), metavar="FILE", help="versions to compare with"
    )
    doctor.add_argument(
        "--no-ranks", action="store_true", help="leave out the ranks' self-test, which takes some ten seconds"
    )
    doctor.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    doctor.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    """Print the findings; exit status 1 if there is a problem."""
    from sonorant.doctor.examination import examine
    from sonorant.doctor.finding import as_json, counts, table

    findings = list(
        examine(features=arguments.data, runs=arguments.runs, lock=arguments.lock, ranks=not arguments.no_ranks)
    )
    print(as_json(findings) if arguments.json else table(findings))
    if counts(findings)["problem"]:
        raise SystemExit(1)
