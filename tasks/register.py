"""Register the voice bundle as a version in the MLflow registry, with its metrics, report and samples."""

import argparse
from pathlib import Path

from sonorant.errors import SonorantError
from sonorant.files import read_json
from sonorant.plugins import load_family
from sonorant.registry import RegisterConfig, Registered, check_judged, register
from sonorant.registry.tracking.mlflow_run import execution_id
from sonorant.speech.bundle import read_bundle
from tasks import params
from tasks.origin import origin_tags
from tasks.stage import run

PREDICTOR, WAVEFORM = Path("models/predictor"), Path("models/waveform")
"""Folders of the trained models, registered with the voice so that any machine can fine-tune it."""


def register_files(voice: Path, metrics: Path, report: Path, params_file: Path, execution: str | None) -> Registered:
    """Register the bundle `voice`. Raises SonorantError if the metrics are those of another voice."""
    config = params.load("register", RegisterConfig, params_file)
    bundle, measured = read_bundle(voice), read_json(metrics)
    try:
        check_judged(bundle, measured)
    except SonorantError as error:
        raise SonorantError(f"{metrics}: {error}") from None
    root = params_file.parent
    family = load_family(bundle.description.family)
    trained = {family.predictor.name: root / PREDICTOR, family.waveform.name: root / WAVEFORM}
    return register(voice, measured, report, config, origin_tags(root), execution, trained)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tasks.register", description=__doc__)
    for option, default, what in (
        ("--voice", "artifacts/voice", "voice bundle"),
        ("--metrics", "reports/metrics.json", "metrics of the voice"),
        ("--report", "reports", "folder of the report, sentences and samples"),
    ):
        parser.add_argument(option, type=Path, default=Path(default), help=f"{what} (default: %(default)s)")
    given = parser.parse_args()
    print(register_files(given.voice, given.metrics, given.report, params.PARAMS, execution_id()).says())


if __name__ == "__main__":
    run(main)
