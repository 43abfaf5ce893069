"""`sonorant tune`: search for better settings of params.yaml with Optuna; each trial is a run of the pipeline."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flows.own_prefect import run_flow, use_own_prefect
from sonorant.cli.say import end_cleanly_on_sigterm, utf8
from sonorant.errors import SonorantError
from tasks import check_params, params
from tasks.stage import run

EXAMPLES = """\
examples:
  sonorant tune run tuning/vocoder.yaml --workers 2     start or continue a search
  sonorant tune status vocoder                          print its trials, the best, and which settings matter
  sonorant tune compare vocoder --seeds 5               compare the best with the defaults, with new seeds
  sonorant tune apply vocoder                           write the best trial's settings to params.yaml

SONORANT_TUNING_STORAGE sets a database for several machines (default: runs/tuning.db); see docs/tuning.md.
"""


def main() -> None:
    assert __doc__
    run_commands("sonorant tune", __doc__, EXAMPLES, _add_commands)


def run_commands(prog: str, description: str, examples: str, add_commands: Callable[[Any], None]) -> None:
    """Run a command-line program. `add_commands` adds its commands to the subparsers; each sets `run` to the function
    to call."""
    parser = argparse.ArgumentParser(
        prog=prog, description=description, epilog=examples, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    add_commands(commands)
    arguments = parser.parse_args()
    use_own_prefect()
    end_cleanly_on_sigterm()  # Prefect forwards the signal after the flow; its server must exit too
    arguments.run(arguments)


def _add_commands(commands: Any) -> None:
    def add(name: str, action: Callable[[argparse.Namespace], None], summary: str) -> Any:
        command = commands.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.")
        command.set_defaults(run=action)
        return command

    def add_trial(command: Any) -> None:
        command.add_argument("study", type=utf8, metavar="STUDY", help="name of the study")
        command.add_argument("--trial", type=int, metavar="N", help="number of the trial (default: the best)")

    command = add("run", _run, "run trials until all are complete; the same command resumes the search")
    command.add_argument("search", type=Path, metavar="FILE", help="file of the search, such as tuning/vocoder.yaml")
    command.add_argument("--trials", type=int, metavar="N", help="total number of trials, instead of the file's")
    add_workers(command)
    command = add("status", _status, "print a study's trials, the best one, and the importance of the settings")
    command.add_argument("study", nargs="?", type=utf8, metavar="STUDY", help="name of the study (default: list all)")
    command = add("compare", _compare, "train a trial and the defaults again with new seeds, and compare them")
    add_trial(command)
    command.add_argument("--seeds", type=count_of, default=5, metavar="N", help="trainings of each (default 5)")
    add_workers(command)
    add_trial(add("apply", _apply, "write a trial's settings to params.yaml and keep its comments"))


def _run(arguments: argparse.Namespace) -> None:
    from flows.tuning.search import read_search

    read_search(arguments.search)
    check_params.check()
    from flows.tuning.results import summary
    from flows.tuning.worker import tune

    name = result_of(tune, str(arguments.search), arguments.trials, arguments.workers)
    print(f"\n{summary(study_of(name))}")


def result_of(flow: Callable[..., Any], *arguments: Any) -> Any:
    """Run a flow and return its result. If it failed, raises SonorantError with its message."""
    state = run_flow(flow, *arguments)
    if not state.is_completed():
        raise SonorantError(f"{state.message}")
    return state.result()


def _status(arguments: argparse.Namespace) -> None:
    from optuna import get_all_study_names

    from flows.tuning.study import open_storage

    names = [arguments.study] if arguments.study else get_all_study_names(open_storage(make=False))
    for study in map(study_of, names):
        from flows.tuning.results import counts, summary

        print(summary(study) if arguments.study else f"{study.name}: {counts(study)}")


def _compare(arguments: argparse.Namespace) -> None:
    study = study_of(arguments.study)
    check_params.check()
    from flows.results import plain_table
    from flows.tuning.compare import begin_comparison, differences
    from flows.tuning.results import chosen, difference_rows, summary
    from flows.tuning.worker import compare

    comparison = begin_comparison(study, chosen(study, arguments.trial), arguments.seeds)
    result_of(compare, comparison.name, arguments.workers)
    rows = difference_rows(differences(comparison), comparison.search.objectives)
    print(f"\n{summary(comparison)}\n\n{plain_table(rows)}")


def _apply(arguments: argparse.Namespace) -> None:
    study = study_of(arguments.study)
    from flows.tuning.results import changed, chosen
    from flows.workspace import check_overrides, edit

    trial = chosen(study, arguments.trial)
    settings = changed(study, trial)
    check_overrides(params.PARAMS, settings)
    edit(params.PARAMS, settings)
    print(f"{params.PARAMS}: trial {trial.number} of study '{study.name}'")
    for key, value in settings.items():
        print(f"  {key}: {value}")
    if study.search.fixed:
        print("  the `fixed` settings of the search are not applied")
    print("next: dvc repro")


def add_workers(command: Any) -> None:
    help_ = "number of processes, at most one per core, which share cores and GPUs"
    command.add_argument("--workers", type=count_of, default=1, metavar="N", help=help_)


def count_of(text: str) -> int:
    if text.isdecimal() and int(text) > 0:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text} is not a positive integer")


def study_of(name: str) -> Any:
    """Return a study by name, before heavy imports."""
    from flows.tuning.study import load_study, open_storage

    return load_study(open_storage(make=False), name)


if __name__ == "__main__":
    run(main)
