"""Stage `verify`: the exported graphs against the trained models -> a parity report, or a failure. Knows nothing of either's insides."""

from __future__ import annotations

import argparse
from pathlib import Path

from sonorant.data.features import FeatureStore
from sonorant.export.cases import shortened, spread_lengths
from sonorant.export.verify import VerifyConfig, verify_voice
from sonorant.files import write_json
from sonorant.runtime.bundle import read_bundle
from tasks.params import load
from tasks.stage import run

UTTERANCES = 8
"""Utterances of the features compared, shortest to longest; before them come the first one and two phonemes of the shortest."""


def main() -> None:
    """Read section `verify`, compare, write the report."""
    parser = argparse.ArgumentParser(
        prog="python -m tasks.verify",
        description="Compare a voice bundle under ONNX Runtime with the trained models under torch, on utterances from one phoneme "
        "to the longest of the features, alone and in batches. Fails where they differ. Settings: params.yaml, section 'verify'.",
    )
    parser.add_argument("--voice", type=Path, required=True, help="the voice bundle")
    parser.add_argument("--acoustic", type=Path, required=True, help="trained folder of the acoustic model")
    parser.add_argument("--vocoder", type=Path, required=True, help="trained folder of the vocoder")
    parser.add_argument("--features", type=Path, required=True, help="feature store, for real phoneme sequences")
    parser.add_argument("--out", type=Path, required=True, help="JSON report to write")
    arguments = parser.parse_args()
    config = load("verify", VerifyConfig)
    store = FeatureStore.open(arguments.features)
    chosen = spread_lengths(store.tokens_count, UTTERANCES)
    shortest = store.tokens(chosen[0])
    utterances = [shortened(shortest, 1), shortened(shortest, 2), *(store.tokens(i) for i in chosen)]
    report = verify_voice(read_bundle(arguments.voice), (arguments.acoustic, arguments.vocoder), utterances, config)
    write_json(arguments.out, report)


if __name__ == "__main__":
    run(main, stage="verify")
