"""Stage `evaluate`: measure every variant that passed verify on held-out sentences, and write audio samples.

It measures error rates with intervals, of the voice and the recordings, distances, DNSMOS, speed, size and memory, and
includes self-tests. Settings: params.yaml, sections `recognizer` and `evaluate`.
"""

from sonorant.audio.recognizers import RecognizerConfig
from sonorant.evaluation.evaluation import EvaluateConfig, EvaluationInputs, evaluate
from sonorant.evaluation.samples import write_family, write_samples
from sonorant.files import write_json
from tasks.params import load
from tasks.stage import run, stage_arguments


def main() -> None:
    outs = {
        "metrics": "JSON file to write: all metrics",
        "out": "folder to write: sentences.jsonl, samples",
        "family": "folder to write: metrics for the other family's report",
    }
    read = ("corpus", "prepared", "recordings", "voice", "predictor", "waveform", "codes", "parity")
    arguments = stage_arguments("evaluate", __doc__, *read, **outs)
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
