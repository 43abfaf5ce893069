"""Stage `train_predictor`: train the model that predicts frames from phonemes, as the voice's family has it.

It runs under torchrun in runs/train_<kind>/<fingerprint> and resumes what is there."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sonorant.families import load_family
from sonorant.families.family import VoiceConfig
from tasks import params
from tasks.stage import run
from tasks.training import train


def main() -> None:
    """Read params, train, leave the model in --out."""
    parser = argparse.ArgumentParser(prog="python -m tasks.train_predictor", description=__doc__)
    parser.add_argument("--features", type=Path, required=True, help="feature store, the output of the stage features")
    parser.add_argument(
        "--codes", type=Path, required=True, help="token store, an output of the stage `train_waveform`"
    )
    parser.add_argument(
        "--runs",
        type=Path,
        required=True,
        help="where run directories are kept; outside DVC, so that checkpoints survive",
    )
    parser.add_argument("--out", type=Path, required=True, help="folder of the trained model")
    parser.add_argument(
        "--profile",
        nargs="?",
        const="auto",
        metavar="FIRST:LAST",
        help="write a trace of these steps, by default a few",
    )
    parser.add_argument("--fresh", action="store_true", help="start anew; the old run directory is moved aside")
    arguments = parser.parse_args()
    kind = load_family(params.load("voice", VoiceConfig).family).predictor
    sizes: Any = params.load(kind.name, kind.sizes())
    train(
        kind.name,
        asdict(sizes),
        asdict(params.load(f"train_{kind.name}", kind.settings())),
        features=arguments.features,
        runs=arguments.runs,
        out=arguments.out,
        codes=arguments.codes if kind.learns_codes else None,
        profile=arguments.profile,
        fresh=arguments.fresh,
    )


if __name__ == "__main__":
    run(main)
