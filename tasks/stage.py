"""Shared code of all tasks: one-line errors, options for paths, MLflow runs of stages."""

import argparse
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from sonorant.errors import SonorantError, Stopped, file_errors
from sonorant.files import read_json
from sonorant.registry.tracking import stage_run
from sonorant.registry.tracking.mlflow_run import execution_id
from tasks import interrupt, params, stopped_in_one_line
from tasks.origin import origin_tags

GRAPH = Path("dvc.yaml")
INPUTS = {
    "audit": "folder written by the stage audit",
    "cache": "folder of cached results by recording; outside DVC, so that it persists",
    "choice": "JSON file written by the stage choose",
    "codes": "token store written by the stage train_waveform",
    "corpus": "folder written by the stage corpus",
    "evaluation": "folder written by the stage evaluate",
    "families": "folder with the metrics of each family, written by the stage evaluate",
    "features": "feature store written by the stage features",
    "metrics": "JSON file written by the stage evaluate",
    "parity": "JSON file written by the stage verify",
    "predictor": "trained predictor: acoustic model or language model",
    "prepared": "folder with the manifest of prepared utterances, written by the stage prepare or audit",
    "quantization": "JSON file written by the stage quantize",
    "quantized": "folder of the int8 models, written by the stage quantize",
    "recordings": "JSON file written by the stage recognize_recordings",
    "runs": "folder of run directories; outside DVC, so that checkpoints persist",
    "voice": "voice bundle",
    "waveform": "trained waveform model: vocoder or codec",
}
"""Help texts of the options for paths that several stages read."""
OPTIONAL = ("cache", "quantized")
"""Names of optional `INPUTS`; without `quantized`, int8 is skipped."""


def add_inputs(parser: argparse.ArgumentParser, *names: str) -> None:
    for name in names:
        parser.add_argument(f"--{name}", type=Path, required=name not in OPTIONAL, help=INPUTS[name])


def check_existing(*paths: Path) -> None:
    for path in paths:
        if not path.exists():
            raise SonorantError(f"{path}: no such file or folder; correct the path, or run: dvc repro")


def stage_arguments(stage: str, description: str | None, *inputs: str, **more: str) -> argparse.Namespace:
    """Parse the command line of a stage. `inputs` are keys of INPUTS; `more` maps other required paths to their help
    texts."""
    parser = argparse.ArgumentParser(prog=f"python -m tasks.{stage}", description=description)
    add_inputs(parser, *inputs)
    for name, what in more.items():
        parser.add_argument(f"--{name}", type=Path, required=True, help=what)
    return parser.parse_args()


def run(main: Callable[[], None], stage: str | None = None) -> None:
    """Run a task's `main`; a SonorantError or an error of the file system becomes one line and exit status 1. SIGTERM
    acts like Ctrl-C.

    In a pipeline execution, a `stage` of dvc.yaml gets an MLflow run with its params, metrics and HTML pages.
    """
    sys.excepthook = stopped_in_one_line
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, interrupt)
    try:
        with file_errors():
            if stage is None or execution_id() is None:
                main()
            else:
                _tracked(main, stage)
    except SonorantError as error:
        stopped = isinstance(error, Stopped)
        print(error if stopped else f"error: {error}", file=sys.stderr)
        raise SystemExit(128 + signal.SIGINT if stopped else 1) from None
    except BrokenPipeError:  # the reader stopped; avoid a second error when Python closes the output
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(128 + signal.SIGPIPE) from None


def stage_of_graph(stage: str) -> dict[str, Any]:
    return yaml.safe_load(GRAPH.read_text(encoding="utf-8"))["stages"][stage]


def stage_params(stage: str) -> dict[str, Any]:
    """Return the settings that a stage depends on, by section, including defaults."""
    return {section: params.effective(section) for section in stage_of_graph(stage)["params"]}


def names_of(outputs: list[Any]) -> list[str]:
    return [output if isinstance(output, str) else next(iter(output)) for output in outputs]


def _tracked(main: Callable[[], None], stage: str) -> None:
    with stage_run(stage, stage_params(stage), origin_tags()) as kept:
        main()
        graph = stage_of_graph(stage)
        outs = names_of(graph["outs"])
        details = [out for out in outs if Path(out).name == "metrics.json"]
        for metrics in (*names_of(graph.get("metrics", [])), *details):
            kept.log_metrics(read_json(Path(metrics)))
        for out in outs:
            pages = [Path(out)] if out.endswith(".html") else sorted(Path(out).glob("*.html"))
            for page in pages:
                kept.log_file(page, page.parent.name)
