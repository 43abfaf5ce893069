"""Stage `export`: write the trained models, in float and quantised, as a voice bundle of every precision."""

import argparse
from pathlib import Path

from sonorant.export.bundling import Sources, corpus_lengths, export_variants
from sonorant.export.distances import spread_lengths
from sonorant.export.onnx_graph import ExportConfig
from sonorant.features.feature_store import FeatureStore
from sonorant.files import write_json
from sonorant.speech.decoding import DecodingConfig
from tasks.params import load
from tasks.stage import add_inputs, run

MEASURED = 3
"""Utterances on which the ranges of the 16-bit variants are measured: from the shortest to the longest."""


def main() -> None:
    """Read sections `export` and `decoding`, write the bundle and its measurements."""
    parser = argparse.ArgumentParser(
        prog="python -m tasks.export",
        description="Write a voice bundle: voice.json and the ONNX graphs of the voice's family in float32, for the "
        "parallel family in float16 and bfloat16 too, and, if there are quantised models, in int8. "
        "Settings: params.yaml, sections 'export' and 'decoding'.",
        epilog='Next: sonorant say "Hello." --voice <the bundle> -o hello.wav',
    )
    add_inputs(parser, "predictor", "waveform", "features")
    parser.add_argument("--quantized", type=Path, help="folder the stage quantize wrote; without it no int8")
    parser.add_argument("--out", type=Path, required=True, help="the bundle to write; an older one is replaced")
    report = "JSON to write: which nodes of the 16-bit variants stay in float32, and why"
    parser.add_argument("--report", type=Path, help=report)
    arguments = parser.parse_args()
    store, quantized = FeatureStore.open(arguments.features), arguments.quantized
    sources = Sources(
        arguments.predictor,
        arguments.waveform,
        quantized=(quantized / "predictor", quantized / "waveform") if quantized else None,
        utterances=[store.tokens(i) for i in spread_lengths(store.tokens_count, MEASURED)],
        decoding=load("decoding", DecodingConfig),
    )
    lengths = corpus_lengths(store.tokens_count, store.frames)
    measured = export_variants(sources, arguments.out, lengths, load("export", ExportConfig))
    if arguments.report:
        write_json(arguments.report, measured)


if __name__ == "__main__":
    run(main, stage="export")
