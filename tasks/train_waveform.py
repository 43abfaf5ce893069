"""Stage `train_waveform`: train a vocoder or a codec under torchrun.

It runs in runs/train_<kind>/<fingerprint> and resumes there. A codec's codes of the whole corpus are the second output;
a pretrained codec is used instead of trained.
"""

from __future__ import annotations

import argparse
import os
from dataclasses import asdict
from pathlib import Path

import torch

from sonorant.data.features import FeatureStore
from sonorant.families.codec_lm.codec import CodecConfig
from sonorant.families.codec_lm.codes import write_codes, write_no_codes
from sonorant.families.codec_lm.pretrained_codec import check_pretrained, refuse_without_graph, take_pretrained
from sonorant.families.codec_lm.training import CodecTrainConfig
from sonorant.families.family import VoiceConfig
from sonorant.families.parallel.vocoder import VocoderConfig
from sonorant.files import sha256_file
from sonorant.models import describe, load_codec, save_model
from sonorant.tracking import stage_run
from sonorant.training.distributed.launch import Node
from sonorant.training.waveform import VocoderTrainConfig
from tasks import params
from tasks.origin import origin_tags
from tasks.stage import run, stage_params
from tasks.training import hash_of, train


def main() -> None:
    """Read params, train, leave the model in --out and its codes in --codes."""
    parser = argparse.ArgumentParser(prog="python -m tasks.train_waveform", description=__doc__)
    parser.add_argument("--features", type=Path, required=True, help="feature store, the output of the stage features")
    parser.add_argument(
        "--runs",
        type=Path,
        required=True,
        help="where run directories are kept; outside DVC, so that checkpoints survive",
    )
    parser.add_argument("--out", type=Path, required=True, help="folder of the trained model")
    parser.add_argument(
        "--codes", type=Path, required=True, help="token store to write; of the family parallel a header alone"
    )
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
        model = asdict(params.load("vocoder", VocoderConfig))
        settings = asdict(params.load("train_vocoder", VocoderTrainConfig))
        if train("vocoder", model, settings, **paths, profile=arguments.profile):
            write_no_codes(arguments.codes)
        return
    config, settings = params.load("codec", CodecConfig), asdict(params.load("train_codec", CodecTrainConfig))
    if config.pretrained:
        if not Node.of(os.environ).first:
            return
        # A training keeps its own MLflow run; a pretrained codec gets one here.
        with stage_run(
            "train_codec", stage_params("train_waveform"), {**origin_tags(), "features": hash_of(arguments.features)}
        ):
            take(config, arguments.features, arguments.out)
    elif not train("codec", asdict(config), settings, **paths, profile=arguments.profile):
        return
    codec, _ = load_codec(arguments.out)
    codec.to("cuda" if torch.cuda.is_available() else "cpu")  # a pretrained one needs hours on a CPU
    write_codes(
        arguments.codes, FeatureStore.open(arguments.features), codec, sha256_file(arguments.out / "weights.pt")
    )


def take(config: CodecConfig, features: Path, out: Path) -> None:
    """Write the codec that `codec.pretrained` names as if it had been trained here. Raises SonorantError if it cannot
    ship."""
    assert config.pretrained
    data_hash = hash_of(features)
    store = FeatureStore.open(features)
    refuse_without_graph(config.pretrained, check_pretrained(config.pretrained, store.audio, config.codebooks))
    codec, about = take_pretrained(config.pretrained, store.audio, config.codebooks)
    provenance = {
        "git_commit": origin_tags().get("git_commit", "unknown"),
        "data": data_hash,
        "steps": 0,
        "pretrained": about["name"],
    }
    described = describe("codec", config, store.header) | {"pretrained": about, "provenance": provenance}
    save_model(out, codec.state_dict(), described)
    print(
        f"{about['name']} ({about['revision']}): {codec.codebooks} codebooks of {codec.codes} codes, taken as it is",
        flush=True,
    )


if __name__ == "__main__":
    run(main)
