"""The command `sonorant`. Knows nothing of how a voice speaks; each subcommand is one function."""

from __future__ import annotations

import argparse
import logging
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from sonorant.errors import SonorantError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SAY_EXAMPLES = """\
examples:
  sonorant say "Good morning." --voice artifacts/voice -o morning.wav
  echo "Read this aloud." | sonorant say - --voice artifacts/voice -o aloud.wav
  sonorant say "Not so fast." --voice artifacts/voice --speed 0.8 -o slow.wav
  sonorant say "Straight to the loudspeaker." --voice artifacts/voice -o - | aplay
  sonorant say "From the registry." --voice models:/sonorant-demo@champion -o champion.wav
"""

DOCTOR_EXAMPLES = """\
examples:
  sonorant doctor                                        versions, devices, this machine, the network, and ranks that average gradients
  sonorant doctor --data data/features --runs runs       the disks of these folders too
  sonorant doctor --json > machine.json                  exit status 1 if there is a problem
"""


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; a SonorantError becomes one line and exit status 1."""
    parsed = _parser().parse_args(arguments)
    logging.basicConfig(format="%(levelname)s: %(message)s", level=logging.WARNING, stream=sys.stderr)
    try:
        parsed.run(parsed)
    except SonorantError as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(1) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="sonorant", description="Use a voice that Sonorant trained, and the machine that trains it."
    )
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add_say(commands)
    _add_doctor(commands)
    _add_sync_tracking(commands)
    _add_plan(commands)
    return parser


def _add_say(commands: argparse._SubParsersAction) -> None:
    say = commands.add_parser(
        "say",
        help="speak a text into a wav file",
        description="Speak a text into a 16-bit wav file.",
        epilog=SAY_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    say.add_argument("text", help="what to say; - reads it from standard input (UTF-8)")
    say.add_argument(
        "--voice", required=True, metavar="VOICE", help="folder of a voice bundle, or models:/<name>@<alias> of the registry"
    )
    say.add_argument("-o", "--out", required=True, metavar="FILE", help="the wav file to write; - writes it to standard output")
    say.add_argument("--speaker", metavar="NAME", help="who speaks, where the voice has several (default: the first)")
    say.add_argument("--speed", type=float, default=1.0, metavar="X", help="0.5 (slow) to 2.0 (fast); default 1.0")
    say.add_argument("--threads", type=int, metavar="N", help="processor threads (default: one a core)")
    say.set_defaults(run=_say)


def _add_doctor(commands: argparse._SubParsersAction) -> None:
    doctor = commands.add_parser(
        "doctor",
        help="is this machine in order for training?",
        description="Look at all that training needs of this machine; each finding comes with its mend.",
        epilog=DOCTOR_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    doctor.add_argument("--data", type=Path, metavar="FOLDER", help="feature store, to measure how fast it is read")
    doctor.add_argument("--runs", type=Path, metavar="FOLDER", help="folder of run directories, to measure how fast it is written")
    doctor.add_argument("--lock", type=Path, default=Path("requirements.lock"), metavar="FILE", help="versions to compare with")
    doctor.add_argument("--no-ranks", action="store_true", help="leave out the ranks' self-test, which takes some ten seconds")
    doctor.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    doctor.set_defaults(run=_doctor)


def _doctor(arguments: argparse.Namespace) -> None:
    from sonorant.doctor.examination import examine
    from sonorant.doctor.finding import as_json, counts, table

    findings = list(examine(features=arguments.data, runs=arguments.runs, lock=arguments.lock, ranks=not arguments.no_ranks))
    print(as_json(findings) if arguments.json else table(findings))
    if counts(findings)["problem"]:
        raise SystemExit(1)


def _add_plan(commands: argparse._SubParsersAction) -> None:
    plan = commands.add_parser("plan", help="what a training of params.yaml will take in memory, time and money", add_help=False)
    plan.add_argument("-h", "--help", action="store_true", dest="wants_help")
    plan.add_argument("arguments", nargs=argparse.REMAINDER)
    plan.set_defaults(run=_plan)


def _plan(arguments: argparse.Namespace) -> None:
    """Settings are read by the pipeline's own code, which is not part of the library but of the folder that params.yaml is in."""
    if not Path("tasks/plan.py").is_file():
        raise SonorantError("sonorant plan: needs the pipeline; run it in the project's folder, which holds params.yaml and tasks/")
    given = ["--help"] if arguments.wants_help else arguments.arguments
    raise SystemExit(subprocess.run([sys.executable, "-m", "tasks.plan", *given]).returncode)


def _say(arguments: argparse.Namespace) -> None:
    from sonorant.runtime import Voice

    text = _standard_input() if arguments.text == "-" else arguments.text
    with tempfile.TemporaryDirectory() as folder:
        voice = Voice.load(_bundle(arguments.voice, Path(folder)), threads=arguments.threads)
        samples = voice.say(text, arguments.speaker, arguments.speed)
    _write(arguments.out, samples, voice.sample_rate)


def _bundle(voice: str, temporary: Path) -> Path:
    if not voice.startswith("models:/"):
        return Path(voice)
    try:
        from sonorant.registry import download_bundle  # needs mlflow, which speaking from a folder does not

        return download_bundle(voice, temporary)
    except ModuleNotFoundError as error:
        raise SonorantError(f"{voice}: the registry needs '{error.name}'; run: pip install 'sonorant[pipeline]'") from None


def _add_sync_tracking(commands: argparse._SubParsersAction) -> None:
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
    sync.set_defaults(run=_sync_tracking)


def _sync_tracking(arguments: argparse.Namespace) -> None:
    from sonorant.tracking import sync, tracked_runs

    for directory in tracked_runs(arguments.runs):
        print(f"{directory}: MLflow run {sync(directory)} has everything", flush=True)


def _standard_input() -> str:
    try:
        return sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SonorantError(f"standard input: not UTF-8 (byte {error.start}); convert the text first") from None


def _write(out: str, samples: NDArray[np.float32], rate: int) -> None:
    from sonorant.audio.wav import write_wav

    if out == "-":
        with tempfile.TemporaryDirectory() as folder:
            write_wav(Path(folder) / "speech.wav", samples, rate)
            sys.stdout.buffer.write((Path(folder) / "speech.wav").read_bytes())
        return
    if Path(out).is_dir():
        raise SonorantError(f"{out}: is a folder; give the name of a wav file")
    try:
        write_wav(Path(out), samples, rate)
    except OSError as error:
        raise SonorantError(f"{out}: cannot be written ({error.strerror})") from None


if __name__ == "__main__":
    main()
