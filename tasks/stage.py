"""What every entry point shares: errors as one line, and stages as MLflow runs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from sonorant.errors import SonorantError
from sonorant.files import read_json
from sonorant.tracking import stage_run
from sonorant.tracking.run import execution_id
from tasks import params
from tasks.origin import origin_tags

GRAPH = Path("dvc.yaml")


def run(main: Callable[[], None], stage: str | None = None) -> None:
    """Run a task's `main`; a SonorantError becomes one line and exit status 1.

    A `stage` of dvc.yaml that is part of a pipeline execution is kept as an MLflow run, with its params, its metrics
    and the pages among its outs.
    """
    try:
        if stage is None or execution_id() is None:
            main()
        else:
            _tracked(main, stage)
    except SonorantError as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(1) from None


def stage_of_graph(stage: str) -> dict[str, Any]:
    """The stage in dvc.yaml."""
    return yaml.safe_load(GRAPH.read_text(encoding="utf-8"))["stages"][stage]


def stage_params(stage: str) -> dict[str, Any]:
    """The sections of params.yaml that the stage depends on."""
    settings = params.read()
    return {section: settings[section] for section in stage_of_graph(stage)["params"]}


def _tracked(main: Callable[[], None], stage: str) -> None:
    with stage_run(stage, stage_params(stage), origin_tags()) as kept:
        main()
        graph = stage_of_graph(stage)
        for metrics in graph.get("metrics", []):
            kept.log_metrics(read_json(Path(next(iter(metrics)))))
        for out in graph["outs"]:
            pages = [Path(out)] if out.endswith(".html") else sorted(Path(out).glob("*.html"))
            for page in pages:
                kept.log_file(page, page.parent.name)
