"""Stage `train_vocoder`: train the vocoder under torchrun in runs/train_vocoder/<fingerprint>, resuming what is there."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path

from sonorant.models.vocoder import VocoderConfig
from sonorant.training.vocoder import VocoderTrainConfig
from tasks import params
from tasks.stage import run
from tasks.training import train


def main() -> None:
    """Read params, train, leave the model in --out."""
    parser = argparse.ArgumentParser(prog="python -m tasks.train_vocoder", description=__doc__)
    parser.add_argument("--features", type=Path, required=True, help="feature store, the output of the stage features")
    parser.add_argument(
        "--runs", type=Path, required=True, help="where run directories are kept; outside DVC, so that checkpoints survive"
    )
    parser.add_argument("--out", type=Path, required=True, help="folder of the trained model")
    parser.add_argument(
        "--profile", nargs="?", const="auto", metavar="FIRST:LAST", help="write a trace of these steps, by default a few"
    )
    arguments = parser.parse_args()
    model = asdict(params.load("vocoder", VocoderConfig))
    settings = asdict(params.load("train_vocoder", VocoderTrainConfig))
    paths = {"features": arguments.features, "runs": arguments.runs, "out": arguments.out}
    train("vocoder", model, settings, **paths, profile=arguments.profile)


if __name__ == "__main__":
    run(main)
