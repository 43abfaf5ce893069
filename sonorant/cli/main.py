"""The command `sonorant` and its subcommands."""

import argparse
import logging
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

from sonorant.cli.pipeline import PROGRAMS, add_pipeline
from sonorant.cli.say import add_say
from sonorant.cli.serve import add_serve
from sonorant.cli.store import add_store
from sonorant.errors import SonorantError, Stopped, file_errors, needing
from sonorant.plugins import added, load

WATCH_EXAMPLES = """\
examples:
  sonorant watch                                     show the running training below runs/, or the newest
  sonorant watch runs/train_acoustic --interval 5    show the newest training of this model
  sonorant watch --once                              print one line

exit status: 0 the training finished, 75 it was stopped and can be resumed, 1 it failed or was killed
"""


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; a SonorantError or an error of the file system becomes one line and exit status 1."""
    arguments = sys.argv[1:] if arguments is None else arguments
    logging.basicConfig(format="%(levelname)s: %(message)s", level=logging.WARNING, stream=sys.stderr)
    try:
        with file_errors():
            parsed = _parser(arguments).parse_args(arguments)
            parsed.run(parsed)
    except SonorantError as error:
        stopped = isinstance(error, Stopped)
        print(error if stopped else f"error: {error}", file=sys.stderr)
        raise SystemExit(128 + signal.SIGINT if stopped else 1) from None
    except KeyboardInterrupt:
        raise SystemExit(128 + signal.SIGINT) from None
    except BrokenPipeError:  # the reader stopped; avoid a second error when Python closes the output
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(128 + signal.SIGPIPE) from None


def _parser(arguments: list[str]) -> argparse.ArgumentParser:
    description = "Train a voice on recordings, and speak with it."
    parser = argparse.ArgumentParser(prog="sonorant", description=description)
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for add in (add_pipeline, add_say, add_serve, _add_watch, _add_sync_tracking, add_store):
        add(commands)
    for name, summary in PROGRAMS.items():
        _add_program(commands, name, "tasks", summary)
    _add_program(commands, "tune", "flows", "search for better settings of params.yaml by running the pipeline")
    if arguments and arguments[0] in commands.choices:
        return parser  # finding plug-ins takes 30 ms
    for place in added("commands").values():
        load(place)(commands)
    for name, (folder, summary) in added("programs").items():
        _add_program(commands, name, folder, summary)
    return parser


def _add_watch(commands: argparse._SubParsersAction) -> None:
    watch = commands.add_parser(
        "watch",
        help="show the progress of a training: step, time left, loss, speed of each rank, problems",
        description="Show the progress of a training until it ends; without a terminal, print a line per interval.",
        epilog=WATCH_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    run = "run directory, or a folder that contains run directories (default: runs)"
    watch.add_argument("folder", nargs="?", type=Path, default=Path("runs"), metavar="RUN", help=run)
    seconds = "seconds between updates (default: 2, without a terminal 10)"
    watch.add_argument("--interval", type=_above_zero, metavar="SECONDS", help=seconds)
    watch.add_argument("--once", action="store_true", help="print one line and exit")
    watch.set_defaults(run=_watch)


def _above_zero(text: str) -> float:
    with suppress(ValueError):
        if 0 < float(text) < float("inf"):
            return float(text)
    raise argparse.ArgumentTypeError(f"{text} is not a positive number of seconds")


def _watch(arguments: argparse.Namespace) -> None:
    with needing("pipeline", "sonorant watch"):
        from sonorant.training.watch import watch
    raise SystemExit(watch(arguments.folder, arguments.interval, arguments.once))


def _add_sync_tracking(commands: argparse._SubParsersAction) -> None:
    sync = commands.add_parser(
        "sync-tracking",
        help="send data to MLflow that could not be sent while its server was unreachable",
        description="Send unsent data of run directories to MLFLOW_TRACKING_URI, each point once.",
    )
    runs = "run directory, or a folder that contains run directories (default: runs)"
    sync.add_argument("runs", nargs="*", type=Path, default=[Path("runs")], metavar="RUN", help=runs)
    sync.set_defaults(run=_sync_tracking)


def _sync_tracking(arguments: argparse.Namespace) -> None:
    from sonorant.registry.tracking import sync, tracked_runs

    for directory in tracked_runs(arguments.runs):
        print(f"{directory}: MLflow run {sync(directory)} is up to date", flush=True)


def _add_program(commands: argparse._SubParsersAction, task: str, room: str, summary: str) -> None:
    # No option has this prefix, so that all options, including --help, go to the program.
    command = commands.add_parser(task, help=summary, add_help=False, prefix_chars="\0")
    command.add_argument("arguments", nargs="*")
    command.set_defaults(run=_run_task, task=task, room=room)


def _run_task(arguments: argparse.Namespace) -> None:
    task, room = arguments.task, arguments.room
    if not Path(f"{room}/{task}.py").is_file():
        raise SonorantError(f"sonorant {task}: needs the pipeline; run it in the project folder, which has {room}/")
    command = [sys.executable, "-m", f"{room}.{task}", *arguments.arguments]
    os.execv(command[0], command)  # the program handles Ctrl-C and SIGTERM for its processes


if __name__ == "__main__":
    main()
