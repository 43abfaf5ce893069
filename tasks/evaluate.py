"""Stage `evaluate`: measure the variants of a voice, and write samples to listen to."""

import argparse
from pathlib import Path

from sonorant.audio.recognizers import RecognizerConfig
from sonorant.evaluation.evaluation import EvaluateConfig, EvaluationInputs, evaluate
from sonorant.evaluation.samples import write_family, write_samples
from sonorant.files import write_json
from tasks.params import load
from tasks.stage import add_inputs, run


def main() -> None:
    """Read sections `recognizer` and `evaluate`, judge, write sentences, samples and metrics."""
    parser = argparse.ArgumentParser(
        prog="python -m tasks.evaluate",
        description="Judge every variant that passed verify on held-out sentences: error rates with intervals beside "
        "the recordings' own, distances, DNSMOS, speed, size, memory, and a test of the evaluator itself. "
        "Settings: params.yaml, sections 'recognizer' and 'evaluate'.",
    )
    add_inputs(parser, "corpus", "prepared", "recordings", "voice", "predictor", "waveform", "codes", "parity")
    parser.add_argument("--metrics", type=Path, required=True, help="JSON to write: every figure")
    parser.add_argument("--out", type=Path, required=True, help="folder to write: sentences.jsonl, samples")
    family = "folder to write: the figures for the other family's report"
    parser.add_argument("--family", type=Path, required=True, help=family)
    arguments = parser.parse_args()
    inputs = EvaluationInputs(
        corpus=arguments.corpus,
        manifest=arguments.prepared / "manifest.jsonl",
        recordings=arguments.recordings,
        voice=arguments.voice,
        trained=(arguments.predictor, arguments.waveform),
        codes=arguments.codes,
        parity=arguments.parity,
    )
    evaluation = evaluate(inputs, load("evaluate", EvaluateConfig), load("recognizer", RecognizerConfig).name)
    write_samples(arguments.out, evaluation)
    write_family(arguments.family, evaluation)
    write_json(arguments.metrics, evaluation.metrics)


if __name__ == "__main__":
    run(main, stage="evaluate")
