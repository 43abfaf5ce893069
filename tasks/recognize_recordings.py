"""Stage `recognize_recordings`: transcribe the held-out recordings, the floor of every error rate."""

import argparse
from pathlib import Path

from sonorant.audio.recognizers import RecognizerConfig
from sonorant.corpus.manifest import read_manifest
from sonorant.evaluation.recordings import recognize_recordings
from sonorant.files import write_json
from tasks.params import load
from tasks.stage import add_inputs, run


def main() -> None:
    """Read section `recognizer`, recognise, write the transcripts."""
    parser = argparse.ArgumentParser(
        prog="python -m tasks.recognize_recordings",
        description="Recognise the recordings of the held-out sentences: the word error rate that a voice is compared "
        "with. Settings: params.yaml, section 'recognizer'.",
    )
    add_inputs(parser, "corpus", "prepared")
    parser.add_argument("--out", type=Path, required=True, help="JSON to write: sentences, transcripts, error rates")
    arguments = parser.parse_args()
    utterances = read_manifest(arguments.prepared / "manifest.jsonl")
    write_json(arguments.out, recognize_recordings(utterances, arguments.corpus, load("recognizer", RecognizerConfig)))


if __name__ == "__main__":
    run(main, stage="recognize_recordings")
