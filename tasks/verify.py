"""Stage `verify`: compare every precision of a voice under every available runtime with the trained models.

The utterances range from one phoneme to the longest of the features, alone and in batches. A candidate that fails is
reported and dropped; if float32 under ONNX Runtime fails, the stage fails. Settings: params.yaml, section `verify`.
"""

from sonorant.export.distances import shortened, spread_lengths
from sonorant.export.tolerance import VerifyConfig
from sonorant.export.verify import verify_voice
from sonorant.features.feature_store import FeatureStore
from sonorant.files import write_json
from sonorant.speech.bundle import read_bundle
from tasks.params import load
from tasks.stage import run, stage_arguments

UTTERANCES = 8
"""Number of utterances to compare, from shortest to longest, in addition to the first one and two phonemes of the
shortest."""


def main() -> None:
    read = ("voice", "predictor", "waveform", "quantized", "features")
    arguments = stage_arguments("verify", __doc__, *read, out="JSON report to write")
    store = FeatureStore.open(arguments.features)
    chosen = spread_lengths(store.tokens_count, UTTERANCES)
    shortest = store.tokens(chosen[0])
    utterances = [shortened(shortest, 1), shortened(shortest, 2), *(store.tokens(i) for i in chosen)]
    trained = (arguments.predictor, arguments.waveform)
    int8 = arguments.quantized
    quantized = (int8 / "predictor", int8 / "waveform") if int8 else None
    voice, config = read_bundle(arguments.voice), load("verify", VerifyConfig)
    report = verify_voice(voice, trained, utterances, config, quantized=quantized)
    write_json(arguments.out, report)
    ran = {name.split("/")[0] for name, found in report.items() if isinstance(found, dict)}
    absent = {}
    for name, found in report.items():
        if isinstance(found, dict):
            print(f"{name}: {found['failed'] or 'passed'}")
        else:
            absent[name if (runtime := name.split("/")[0]) in ran else runtime] = found
    if absent:
        print(f"not run: {', '.join(absent)}; why: {arguments.out}")


if __name__ == "__main__":
    run(main, stage="verify")
