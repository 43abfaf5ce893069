"""Stage `recognize_recordings`: transcribe the held-out recordings, to compare a voice's word error rate with them."""

from sonorant.audio.recognizers import RecognizerConfig
from sonorant.corpus.manifest import read_manifest
from sonorant.evaluation.recordings import recognize_recordings
from sonorant.files import write_json
from tasks.params import load
from tasks.stage import run, stage_arguments


def main() -> None:
    out = "JSON file to write: sentences, transcripts, error rates"
    arguments = stage_arguments("recognize_recordings", __doc__, "corpus", "prepared", out=out)
    utterances = read_manifest(arguments.prepared / "manifest.jsonl")
    write_json(arguments.out, recognize_recordings(utterances, arguments.corpus, load("recognizer", RecognizerConfig)))


if __name__ == "__main__":
    run(main, stage="recognize_recordings")
