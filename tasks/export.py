"""Stage `export`: the trained acoustic model and vocoder -> a voice bundle. Knows nothing of ONNX."""

from __future__ import annotations

import argparse
from pathlib import Path

from sonorant.data.features import FeatureStore
from sonorant.export.onnx import ExportConfig
from sonorant.export.voice import corpus_lengths, export_voice
from tasks.params import load
from tasks.stage import run


def main() -> None:
    """Read section `export`, write the bundle."""
    parser = argparse.ArgumentParser(
        prog="python -m tasks.export",
        description="Write a voice bundle: voice.json and the ONNX graphs of acoustic model and vocoder. "
        "Settings: params.yaml, section 'export'.",
        epilog='Next: sonorant say "Hello." --voice <the bundle> -o hello.wav',
    )
    parser.add_argument("--acoustic", type=Path, required=True, help="trained folder of the acoustic model")
    parser.add_argument("--vocoder", type=Path, required=True, help="trained folder of the vocoder")
    parser.add_argument("--features", type=Path, required=True, help="feature store that they were trained on, for its lengths")
    parser.add_argument("--out", type=Path, required=True, help="the bundle to write; an older one is replaced")
    arguments = parser.parse_args()
    store = FeatureStore.open(arguments.features)
    lengths = corpus_lengths(store.tokens_count, store.frames)
    export_voice(arguments.acoustic, arguments.vocoder, arguments.out, lengths, load("export", ExportConfig))


if __name__ == "__main__":
    run(main, stage="export")
