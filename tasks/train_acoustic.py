"""Stage `train_acoustic`: train the acoustic under torchrun in runs/train_acoustic/<fingerprint>, resuming what is there."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path

from sonorant.models.acoustic import AcousticConfig
from sonorant.training.acoustic import AcousticTrainConfig
from tasks import params
from tasks.stage import run
from tasks.training import train


def main() -> None:
    """Read params, train, leave the model in --out."""
    parser = argparse.ArgumentParser(prog="python -m tasks.train_acoustic", description=__doc__)
    parser.add_argument("--features", type=Path, required=True, help="feature store, the output of the stage features")
    parser.add_argument(
        "--runs", type=Path, required=True, help="where run directories are kept; outside DVC, so that checkpoints survive"
    )
    parser.add_argument("--out", type=Path, required=True, help="folder of the trained model")
    parser.add_argument(
        "--profile", nargs="?", const="auto", metavar="FIRST:LAST", help="write a trace of these steps, by default a few"
    )
    arguments = parser.parse_args()
    model = asdict(params.load("acoustic", AcousticConfig))
    settings = asdict(params.load("train_acoustic", AcousticTrainConfig))
    paths = {"features": arguments.features, "runs": arguments.runs, "out": arguments.out}
    train("acoustic", model, settings, **paths, profile=arguments.profile)


if __name__ == "__main__":
    run(main)
