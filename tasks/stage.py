"""Shared by all entry points: errors as one line, options for paths, and stages as MLflow runs."""

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
    "quantized": "folder the stage quantize wrote",
    "recordings": "JSON the stage recognize_recordings wrote",
    "runs": "where run directories are kept; outside DVC, so that checkpoints survive",
    "voice": "the voice bundle",
    "waveform": "trained waveform model: vocoder or codec",
}
"""Paths that several stages read, and their help."""


def add_inputs(parser: argparse.ArgumentParser, *names: str) -> None:
    """Add a required option for each of these INPUTS."""
    for name in names:
        parser.add_argument(f"--{name}", type=Path, required=True, help=INPUTS[name])


def run(main: Callable[[], None], stage: str | None = None) -> None:
    """Run a task's `main`; a SonorantError, or a disk that is full, becomes one line and exit status 1.

    A `stage` of dvc.yaml in a pipeline execution is kept as an MLflow run, with its params, metrics and HTML pages.
    """
    try:
        if stage is None or execution_id() is None:
            main()
        else:
            _tracked(main, stage)
    except SonorantError as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(1) from None
    except BrokenPipeError:  # the reader stopped; Python must not complain again when it closes the output
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(128 + signal.SIGPIPE) from None
    except (OSError, sqlite3.OperationalError) as error:
        if not _disk_is_full(error):
            raise
        where = getattr(error, "filename", None) or "a disk that is written to"
        print(f"error: {where}: is full; make room and repeat the command, what is done is kept", file=sys.stderr)
        raise SystemExit(1) from None


def _disk_is_full(error: Exception) -> bool:
    # sqlite3, which diskcache writes by, gives no number
    return getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT) or "disk is full" in str(error)


def stage_of_graph(stage: str) -> dict[str, Any]:
    """The stage in dvc.yaml."""
    return yaml.safe_load(GRAPH.read_text(encoding="utf-8"))["stages"][stage]


def stage_params(stage: str) -> dict[str, Any]:
    """The settings that the stage depends on, by section of params.yaml, defaults included."""
    return {section: params.effective(section) for section in stage_of_graph(stage)["params"]}


def names_of(outputs: list[Any]) -> list[str]:
    """Paths of outputs as dvc.yaml lists them: a path, or a path with its options."""
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
