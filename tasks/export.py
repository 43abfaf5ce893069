"""Stage `export`: write the trained models as a voice bundle: voice.json and the ONNX graphs in every precision.

The precisions are float32, int8 and, for the parallel family, float16 and bfloat16. Settings: params.yaml, sections
`export` and `decoding`.
"""

from sonorant.export.bundling import Sources, corpus_lengths, export_variants
from sonorant.export.distances import spread_lengths
from sonorant.export.onnx_graph import ExportConfig
from sonorant.features.feature_store import FeatureStore
from sonorant.files import write_json
from sonorant.speech.decoding import DecodingConfig
from tasks.params import load
from tasks.stage import run, stage_arguments

MEASURED = 3
"""Number of utterances, spread from shortest to longest, on which value ranges of the 16-bit variants are measured."""


def main() -> None:
    outs = {
        "out": "bundle to write; an older one is replaced",
        "report": "JSON file to write: which nodes of the 16-bit variants stay in float32, and why",
    }
    arguments = stage_arguments("export", __doc__, "predictor", "waveform", "features", "quantized", **outs)
    store, int8 = FeatureStore.open(arguments.features), arguments.quantized
    sources = Sources(
        arguments.predictor,
        arguments.waveform,
        quantized=(int8 / "predictor", int8 / "waveform") if int8 else None,
        utterances=[store.tokens(i) for i in spread_lengths(store.tokens_count, MEASURED)],
        decoding=load("decoding", DecodingConfig),
    )
    lengths = corpus_lengths(store.tokens_count, store.frames)
    write_json(arguments.report, export_variants(sources, arguments.out, lengths, load("export", ExportConfig)))


if __name__ == "__main__":
    run(main, stage="export")
