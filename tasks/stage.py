"""Shared by all tasks: errors as one line, options for paths, stages as MLflow runs."""

import argparse
import errno
import os
import signal
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from sonorant.errors import SonorantError
from sonorant.files import read_json
from sonorant.registry.tracking import stage_run
from sonorant.registry.tracking.mlflow_run import execution_id
from tasks import params
from tasks.origin import origin_tags

GRAPH = Path("dvc.yaml")
INPUTS = {
    "audit": "folder the stage audit wrote",
    "cache": "folder of results by recording; outside DVC, so that it survives",
    "choice": "JSON the stage choose wrote",
    "codes": "token store the stage train_waveform wrote",
    "corpus": "folder the stage corpus wrote",
    "evaluation": "folder the stage evaluate wrote",
    "families": "folder with the figures of each family, from the stage evaluate",
    "features": "feature store the stage features wrote",
    "metrics": "JSON the stage evaluate wrote",
    "parity": "JSON the stage verify wrote",
    "predictor": "trained predictor: acoustic model or language model",
    "prepared": "folder with the manifest of prepared utterances, from the stage prepare or audit",
    "quantization": "JSON the stage quantize wrote",
    "quantized": "folder of the int8 models, from the stage quantize",
    "recordings": "JSON the stage recognize_recordings wrote",
    "runs": "where run directories are kept; outside DVC, so that checkpoints survive",
    "voice": "the voice bundle",
    "waveform": "trained waveform model: vocoder or codec",
}
"""Paths that several stages read, and their help."""
OPTIONAL = ("cache", "quantized")
"""Without the latter there is no int8."""


def add_inputs(parser: argparse.ArgumentParser, *names: str) -> None:
    """Add an option for each of these INPUTS."""
    for name in names:
        parser.add_argument(f"--{name}", type=Path, required=name not in OPTIONAL, help=INPUTS[name])


def stage_arguments(stage: str, description: str | None, *inputs: str, **more: str) -> argparse.Namespace:
    """Read the command line of a stage: `inputs` of INPUTS, and `more` required paths, name to help."""
    parser = argparse.ArgumentParser(prog=f"python -m tasks.{stage}", description=description)
    add_inputs(parser, *inputs)
    for name, what in more.items():
        parser.add_argument(f"--{name}", type=Path, required=True, help=what)
    return parser.parse_args()


def run(main: Callable[[], None], stage: str | None = None) -> None:
    """Run a task's `main`; a SonorantError or a full disk becomes one line and exit status 1.

    A `stage` of dvc.yaml in a pipeline execution gets an MLflow run with its params, metrics and HTML pages.
    """
    try:
        if stage is None or execution_id() is None:
            main()
        else:
            _tracked(main, stage)
    except SonorantError as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(1) from None
    except BrokenPipeError:  # the reader stopped; avoid a second error when Python closes the output
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(128 + signal.SIGPIPE) from None
    except (OSError, sqlite3.OperationalError) as error:
        if not _disk_is_full(error):
            raise
        where = getattr(error, "filename", None) or Path.cwd()
        print(
            f"error: no space left on {where}: free some and repeat the command; finished work is kept", file=sys.stderr
        )
        raise SystemExit(1) from None


def _disk_is_full(error: Exception) -> bool:
    # sqlite3, used by diskcache, gives no number
    return getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT) or "disk is full" in str(error)


def stage_of_graph(stage: str) -> dict[str, Any]:
    """The stage in dvc.yaml."""
    return yaml.safe_load(GRAPH.read_text(encoding="utf-8"))["stages"][stage]


def stage_params(stage: str) -> dict[str, Any]:
    """Settings that the stage depends on, by section, defaults included."""
    return {section: params.effective(section) for section in stage_of_graph(stage)["params"]}


def names_of(outputs: list[Any]) -> list[str]:
    """Paths of outputs in dvc.yaml: a path, or a path with options."""
    return [output if isinstance(output, str) else next(iter(output)) for output in outputs]


def _tracked(main: Callable[[], None], stage: str) -> None:
    with stage_run(stage, stage_params(stage), origin_tags()) as kept:
        main()
        graph = stage_of_graph(stage)
        for metrics in names_of(graph.get("metrics", [])):
            kept.log_metrics(read_json(Path(metrics)))
        for out in names_of(graph["outs"]):
            pages = [Path(out)] if out.endswith(".html") else sorted(Path(out).glob("*.html"))
            for page in pages:
                kept.log_file(page, page.parent.name)
