"""Stage `train_waveform`: train the model that turns frames into samples, as the voice's family has it.

It runs under torchrun in runs/train_<kind>/<fingerprint> and resumes what is there. A pretrained model is taken instead
of trained. The codes that it makes of the whole corpus are the stage's second output.
"""

from __future__ import annotations

import argparse
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sonorant.families import load_family
from sonorant.families.family import ModelKind, VoiceConfig
from sonorant.tracking import stage_run
from sonorant.training.distributed.launch import Node
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
        "--codes", type=Path, required=True, help="token store to write; of a family without codes a header alone"
    )
    parser.add_argument(
        "--profile",
        nargs="?",
        const="auto",
        metavar="FIRST:LAST",
        help="write a trace of these steps, by default a few",
    )
    parser.add_argument("--fresh", action="store_true", help="start anew; the old run directory is moved aside")
    arguments = parser.parse_args()
    family = load_family(params.load("voice", VoiceConfig).family)
    if _made(family.waveform, arguments):
        family.write_codes(arguments.out, arguments.features, arguments.codes)


def _made(kind: ModelKind, arguments: argparse.Namespace) -> bool:
    """Leave the model in --out; false on other nodes than the first, which alone writes it."""
    sizes: Any = params.load(kind.name, kind.sizes())
    settings = asdict(params.load(f"train_{kind.name}", kind.settings()))
    paths = {"features": arguments.features, "runs": arguments.runs, "out": arguments.out}
    if not kind.pretrained(sizes):
        return train(kind.name, asdict(sizes), settings, **paths, profile=arguments.profile, fresh=arguments.fresh)
    if not Node.of(os.environ).first:
        return False
    data_hash = hash_of(arguments.features)
    tags = origin_tags()
    # A training keeps a run of its own; a model that is taken is to be found beside the other stages too.
    with stage_run(f"train_{kind.name}", stage_params("train_waveform"), {**tags, "features": data_hash}):
        provenance = {"git_commit": tags.get("git_commit", "unknown"), "data": data_hash}
        kind.take(sizes, arguments.features, arguments.out, provenance)
    return True


if __name__ == "__main__":
    run(main)
