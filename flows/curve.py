"""`sonorant curve`: estimate whether more recordings would help, from training runs on fewer minutes."""

import argparse
from typing import Any

from flows.tune import add_workers, count_of, result_of, run_commands, study_of
from flows.tuning.sizes import MORE, REPORT, SIZES, STUDY, read_sizes
from sonorant.cli.say import utf8
from tasks import check_params
from tasks.stage import run

EXAMPLES = """\
examples:
  sonorant curve run                                  train on 5, 10, 20, 40 and all minutes, three seeds each
  sonorant curve run --minutes 2,4,8 --seeds 5 --workers 2
  sonorant curve run --minutes 5,10,20 --init-from models:/base@champion --name tuned    also fine-tune
  sonorant curve show --more 30                       forecast for another 30 minutes

The same command resumes the trainings. See docs/recordings.md (how to read a curve) and docs/tuning.md.
"""


def main() -> None:
    assert __doc__
    run_commands("sonorant curve", __doc__, EXAMPLES, _add_commands)


def _add_commands(commands: Any) -> None:
    for name, action, summary in (
        ("run", _run, "train voices on some and on all minutes; the same command resumes the trainings"),
        ("show", _show, "print the curve so far and write the report again"),
    ):
        command = commands.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.")
        command.set_defaults(run=action)
        command.add_argument("--name", type=utf8, default=STUDY, help=f"name of the study (default {STUDY})")
        more = f"further minutes to forecast, at most the recorded minutes (default {MORE:g}, or fewer)"
        command.add_argument("--more", type=float, metavar="MINUTES", help=more)
    command = commands.choices["run"]
    add = command.add_argument
    add("--minutes", default=SIZES, metavar="LIST", help=f"sizes in minutes; all is added (default {SIZES})")
    add("--seeds", type=count_of, default=3, metavar="N", help="trainings per size (default 3)")
    figure = "key of reports/metrics.json to draw; may be repeated (default: words, sound, intonation, short texts)"
    add("--figure", action="append", default=[], metavar="KEY", help=figure)
    start = "also fine-tune this voice for each size and seed: models:/<name>@<alias>, or another project's models/"
    add("--init-from", metavar="VOICE", help=start)
    change = "setting of the fine-tuned voices, such as train_acoustic.learning_rate=4.0e-4; may be repeated"
    add("--with", dest="changes", type=utf8, action="append", default=[], metavar="KEY=VALUE", help=change)
    add_workers(command)


def _run(arguments: argparse.Namespace) -> None:
    read_sizes(arguments.minutes)
    check_params.check()
    from flows.tuning.worker import curve

    how = (arguments.minutes, arguments.seeds, arguments.figure, arguments.workers, arguments.name, arguments.more)
    result_of(curve, *how, arguments.init_from, arguments.changes)
    _show(arguments)


def _show(arguments: argparse.Namespace) -> None:
    study = study_of(arguments.name)
    from flows.tuning.curve import write_report
    from flows.tuning.results import summary

    told = write_report(study, arguments.more)
    print(f"\n{summary(study)}\n")
    print("\n".join(told))
    print(f"\n{REPORT.with_suffix('.html')} contains the charts, {REPORT} the values")


if __name__ == "__main__":
    run(main)
