"""Stage `train_waveform`: train the voice's waveform model (vocoder or codec), and write the codes of the corpus.

The training runs under torchrun and resumes in runs/train_<kind>/<fingerprint>. A pretrained model is used unchanged.
"""

import argparse
import os
from typing import Any

from sonorant.families.family import ModelKind, VoiceConfig
from sonorant.plugins import load_family
from sonorant.registry.tracking import stage_run
from sonorant.training.distributed.launch import Node
from tasks import params
from tasks.origin import origin_tags
from tasks.stage import run, stage_params
from tasks.training import hash_of, train_kind, training_parser


def main() -> None:
    codes = "token store to write; only a header for a family without codes"
    arguments = training_parser("train_waveform", __doc__, codes=codes).parse_args()
    family = load_family(params.load("voice", VoiceConfig).family)
    if _made(family.waveform, arguments):
        family.write_codes(arguments.out, arguments.features, arguments.codes)


def _made(kind: ModelKind, arguments: argparse.Namespace) -> bool:
    """Write the model to --out; return true only on the first node."""
    sizes: Any = params.load(kind.name, kind.sizes())
    if not kind.pretrained(sizes):
        return train_kind(kind, arguments)
    if not Node.of(os.environ).first:
        return False
    data_hash, tags = hash_of(arguments.features), origin_tags()
    with stage_run(f"train_{kind.name}", stage_params("train_waveform"), {**tags, "features": data_hash}):
        provenance = {"git_commit": tags.get("git_commit", "unknown"), "data": data_hash}
        kind.take(sizes, arguments.features, arguments.out, provenance)
    return True


if __name__ == "__main__":
    run(main)
