"""`sonorant curve`: would more recordings help? The same training on fewer minutes, and a curve through the voices."""

import argparse
from typing import Any

from flows.tune import count_of, run_commands
from flows.tuning.sizes import MORE, REPORT, SIZES, STUDY
from sonorant.errors import SonorantError
from tasks import check_params
from tasks.stage import run

EXAMPLES = """\
examples:
  sonorant curve run                                  5, 10, 20, 40 and all minutes, three seeds each
  sonorant curve run --minutes 2,4,8 --seeds 5 --workers 2
  sonorant curve run --minutes 5,10,20 --init-from models:/base@champion --name tuned    fine-tuned beside from scratch
  sonorant curve show --more 30                       what another 30 minutes would bring

The same command goes on where it was stopped. docs/recordings.md says how to read it, docs/tuning.md what it shares.
"""


def main() -> None:
    """Read the command line and do what it says."""
    assert __doc__
    run_commands("sonorant curve", __doc__, EXAMPLES, (_add_run, _add_show))


def _add_run(commands: Any) -> None:
    summary = "train voices on fewer minutes and on all; the same command goes on"
    command = commands.add_parser("run", help=summary, description=f"{summary[0].upper()}{summary[1:]}.")
    command.set_defaults(run=_run)
    add = command.add_argument
    add("--minutes", default=SIZES, metavar="LIST", help=f"sizes besides all of them (default {SIZES})")
    add("--seeds", type=count_of, default=3, metavar="N", help="trainings of each size (default 3)")
    figure = (
        "key of reports/metrics.json to draw, more than once for several (default: words, sound, melody, short texts)"
    )
    add("--figure", action="append", default=[], metavar="KEY", help=figure)
    start = "also train as many voices that begin from this one: models:/<name>@<alias>, or another project's models/"
    add("--init-from", metavar="VOICE", help=start)
    change = "a setting of these others, more than once for several, such as train_acoustic.learning_rate=4.0e-4"
    add("--with", dest="changes", action="append", default=[], metavar="KEY=VALUE", help=change)
    add("--workers", type=count_of, default=1, metavar="N", help="processes here, each with its share")
    _add_shown(command)


def _run(arguments: argparse.Namespace) -> None:
    check_params.check()
    from flows.tuning.worker import curve

    state: Any = curve(
        arguments.minutes, arguments.seeds, arguments.figure, arguments.workers, arguments.name, arguments.more,
        arguments.init_from, arguments.changes, return_state=True,
    )  # fmt: skip
    if not state.is_completed():
        raise SonorantError(f"{state.message}")
    _show(arguments)


def _add_show(commands: Any) -> None:
    summary = "what the curve says so far; writes the report again"
    command = commands.add_parser("show", help=summary, description=f"{summary[0].upper()}{summary[1:]}.")
    command.set_defaults(run=_show)
    _add_shown(command)


def _add_shown(command: Any) -> None:
    command.add_argument("--name", default=STUDY, help=f"of the study (default {STUDY})")
    more = f"minutes more to foretell, at most as many as there are (default {MORE:g}, or as many as there are)"
    command.add_argument("--more", type=float, metavar="MINUTES", help=more)


def _show(arguments: argparse.Namespace) -> None:
    from flows.tuning.curve import write_report
    from flows.tuning.results import summary
    from flows.tuning.study import load_study, open_storage

    study = load_study(open_storage(), arguments.name)
    told = write_report(study, arguments.more)
    print(f"\n{summary(study)}\n")
    print("\n".join(told))
    print(f"\n{REPORT.with_suffix('.html')} has the charts, {REPORT} the figures")


if __name__ == "__main__":
    run(main)
