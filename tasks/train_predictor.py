"""Stage `train_predictor`: train an acoustic model or a codec language model under torchrun.

It runs in runs/train_<kind>/<fingerprint> and resumes there.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path

from sonorant.families.codec_lm.language_model import LanguageModelConfig
from sonorant.families.codec_lm.training import LanguageModelTrainConfig
from sonorant.families.family import VoiceConfig
from sonorant.families.parallel.acoustic import AcousticConfig
from sonorant.families.parallel.training import AcousticTrainConfig
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
    arguments = parser.parse_args()
    paths = {"features": arguments.features, "runs": arguments.runs, "out": arguments.out}
    if params.load("voice", VoiceConfig).family == "parallel":
        model = asdict(params.load("acoustic", AcousticConfig))
        settings = asdict(params.load("train_acoustic", AcousticTrainConfig))
        train("acoustic", model, settings, **paths, profile=arguments.profile)
        return
    model = asdict(params.load("language_model", LanguageModelConfig))
    settings = asdict(params.load("train_language_model", LanguageModelTrainConfig))
    train("language_model", model, settings, **paths, codes=arguments.codes, profile=arguments.profile)


if __name__ == "__main__":
    run(main)
