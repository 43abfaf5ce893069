"""Stage `features`: mels, samples and phonemes of the accepted utterances, memory-mapped."""

import argparse
from pathlib import Path

from sonorant.audio.mel import MelConfig
from sonorant.data.feature_writer import write_features
from sonorant.data.manifest import read_manifest
from sonorant.text import TextConfig
from tasks.params import load
from tasks.stage import add_inputs, run


def main() -> None:
    """Read the manifest of `prepare` and write the feature store."""
    parser = argparse.ArgumentParser(prog="python -m tasks.features", description=__doc__)
    add_inputs(parser, "corpus", "prepared")
    parser.add_argument("--out", type=Path, required=True, help="folder to write the feature store to")
    processes = "worker processes (default: one a core); the result does not depend on it"
    parser.add_argument("--processes", type=int, help=processes)
    arguments = parser.parse_args()
    if arguments.processes is not None and arguments.processes < 1:
        parser.error("--processes must be at least 1")
    audio, text = load("audio", MelConfig), load("text", TextConfig)
    utterances = read_manifest(arguments.prepared / "manifest.jsonl")
    write_features(arguments.corpus, utterances, arguments.out, audio, text, arguments.processes)


if __name__ == "__main__":
    run(main, stage="features")
