"""The command `sonorant doctor`."""

import argparse
from pathlib import Path

from sonorant.extras.doctor.examination import as_json, counts, examine, table

EXAMPLES = """\
examples:
  sonorant doctor                                    versions, devices, machine, network, and the ranks' self-test
  sonorant doctor --data data/features --runs runs   the disks of these folders too
  sonorant doctor --json > machine.json              exit status 1 if there is a problem
"""


def add_doctor(commands: argparse._SubParsersAction) -> None:
    doctor = commands.add_parser(
        "doctor",
        help="is this machine in order for training?",
        description="Check everything that training needs of this machine; each finding comes with a hint.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = doctor.add_argument
    add("--data", type=Path, metavar="FOLDER", help="feature store, to measure how fast it is read")
    add("--runs", type=Path, metavar="FOLDER", help="folder of run directories, to measure how fast it is written")
    add("--lock", type=Path, default=Path("requirements.lock"), metavar="FILE", help="versions to compare with")
    ranks = "leave out the ranks' self-test, which takes some ten seconds"
    add("--no-ranks", dest="ranks", action="store_false", help=ranks)
    add("--json", action="store_true", help="print one JSON object instead of a table")
    doctor.set_defaults(run=_run_doctor)


def _run_doctor(arguments: argparse.Namespace) -> None:
    """Print the findings; exit status 1 if there is a problem."""
    findings = list(examine(features=arguments.data, runs=arguments.runs, lock=arguments.lock, ranks=arguments.ranks))
    print(as_json(findings) if arguments.json else table(findings))
    if counts(findings)["problem"]:
        raise SystemExit(1)
