"""Stage `verify`: compare every runtime and precision of a voice with the trained models."""

import argparse
from pathlib import Path

from sonorant.export.distances import shortened, spread_lengths
from sonorant.export.tolerance import VerifyConfig
from sonorant.export.verify import verify_voice
from sonorant.features.feature_store import FeatureStore
from sonorant.files import write_json
from sonorant.speech.bundle import read_bundle
from tasks.params import load
from tasks.stage import add_inputs, run

UTTERANCES = 8
"""Utterances compared, shortest to longest; before them come the first one and two phonemes of the shortest."""


def main() -> None:
    """Read section `verify`, compare, write the report."""
    parser = argparse.ArgumentParser(
        prog="python -m tasks.verify",
        description="Check every precision of a voice bundle under every runtime that runs here against the trained "
        "models under torch, on utterances from one phoneme to the longest of the features, alone and in batches. "
        "What fails is named and dropped; if float32 under ONNX Runtime fails, so does this. "
        "Settings: params.yaml, section 'verify'.",
    )
    add_inputs(parser, "voice", "predictor", "waveform", "features")
    parser.add_argument("--quantized", type=Path, help="folder the stage quantize wrote; needed for int8")
    parser.add_argument("--out", type=Path, required=True, help="JSON report to write")
    arguments = parser.parse_args()
    config = load("verify", VerifyConfig)
    store = FeatureStore.open(arguments.features)
    chosen = spread_lengths(store.tokens_count, UTTERANCES)
    shortest = store.tokens(chosen[0])
    utterances = [shortened(shortest, 1), shortened(shortest, 2), *(store.tokens(i) for i in chosen)]
    trained = (arguments.predictor, arguments.waveform)
    quantized = (arguments.quantized / "predictor", arguments.quantized / "waveform") if arguments.quantized else None
    report = verify_voice(read_bundle(arguments.voice), trained, utterances, config, quantized=quantized)
    write_json(arguments.out, report)
    for name, found in report.items():
        print(f"{name}: {found if isinstance(found, str) else found['failed'] or 'passed'}")


if __name__ == "__main__":
    run(main, stage="verify")
