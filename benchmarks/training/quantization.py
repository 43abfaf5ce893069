"""What does int8 cost and gain, by calibration (PTQ) and by training (QAT), relative to float?

    python -m benchmarks quantization      # in the folder of a finished demo

The control, float trained on for the same steps, shows how much of QAT's gain is due to training rather than int8.
WER is measured on the demo's held-out sentences, log-mel on the validation split, and speed alternately on one thread
under ONNX Runtime, over all graphs.
"""

import dataclasses
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.report import command, finish, options
from benchmarks.turns import ratio, take_turns
from sonorant.audio.recognizers import Clip, RecognizerConfig, transcribe
from sonorant.corpus.manifest import read_manifest
from sonorant.errors import SonorantError
from sonorant.evaluation.error_rates import ErrorCounts, Normalizer, compare, summarize
from sonorant.evaluation.recordings import held_out, score, spoken_text
from sonorant.evaluation.renderings import render
from sonorant.export.bundling import Sources, corpus_lengths, export_variants
from sonorant.export.onnx_graph import ExportConfig
from sonorant.export.quantization.quantize import QuantizeConfig, above, decide, post_train, summary
from sonorant.families.parallel.acoustic_training import AcousticTrainConfig, VocoderTrainConfig
from sonorant.features.feature_store import FeatureStore
from sonorant.layers.model_folder import load_model
from sonorant.speech.voice import Voice
from tasks.params import load
from tasks.quantize import Data, train_on
from tasks.stage import run

KINDS = {"acoustic": "predictor", "vocoder": "waveform"}
"""The models and their folders in `models`."""
NEEDED = ("data/corpus", "data/prepared", "data/features", "models/predictor", "models/waveform")
PARAMS = "params.yaml"
SHORT: dict[str, Any] = {"sentences": 2, "repeats": 3}


@dataclass(frozen=True)
class System:
    bundle: Path
    variant: str

    @property
    def name(self) -> str:
        """Equal for two systems if they are the same."""
        return f"{self.bundle.name}/{self.variant}"


def main() -> None:
    parser = command(__doc__)
    add = parser.add_argument
    add("--project", type=Path, default=Path(), help="folder of a finished demo (data/, models/)")
    add("--sentences", type=int, help="held-out sentences to judge (default: recognizer.sentences)")
    add("--repeats", type=int, default=40, help="timed runs of each voice")
    arguments = options(parser, SHORT)
    with tempfile.TemporaryDirectory() as temporary:
        for name in NEEDED:
            if not (arguments.project / name).is_dir():
                remedy = "run in the folder of a finished `make demo`, or give --project"
                raise SonorantError(f"{arguments.project / name}: missing; {remedy}")
        result = measure(arguments.project, Path(temporary), arguments.sentences, arguments.repeats)
    result["size_over_float"] = round(result["bytes"]["shipped"] / result["bytes"]["float"], 4)
    finish("quantization", result, claims_of(result), arguments)


def measure(project: Path, temporary: Path, sentences: int | None, repeats: int) -> dict[str, Any]:
    """Train, export and judge every system; return all figures."""
    folders, losses, shipped = train_all(project, temporary)
    systems = export_all(project, folders, shipped, temporary)
    heard = listen(project, systems, sentences)
    speech = {name: summarize(counts) for name, counts in heard.items()}
    for name in speech.keys() - {"float"}:
        speech[name]["above_float"] = compare(heard[name], heard["float"])
    return {
        "shipped": shipped,
        "wer": speech,
        "qat_above_ptq": compare(heard["qat"], heard["ptq"]),
        "validation": losses,
        "bytes": {name: size_of(system) for name, system in systems.items()},
        "speed": race(systems, repeats),
    }


def claims_of(result: dict[str, Any]) -> dict[str, bool]:
    words, speed = result["wer"]["shipped"]["above_float"], result["speed"]["shipped"]
    return {
        "int8 as shipped: WER at most 2 points above float": words["wer"] <= 2.0,
        "int8 as shipped: at most a third of float's size": result["size_over_float"] <= 1 / 3,
        "int8 as shipped: certainly faster than float on one thread": speed["speedup_ci95"][0] > 1.0,
    }


def train_all(project: Path, temporary: Path) -> tuple[dict[str, dict[str, Path]], dict[str, Any], dict[str, str]]:
    """Trained folders by system and kind, validation figures by kind, and which of `ptq` and `qat` ships, by kind."""
    config = dataclasses.replace(load("quantize", QuantizeConfig, project / PARAMS), method="auto")
    settings = {
        "acoustic": load("train_acoustic", AcousticTrainConfig, project / PARAMS),
        "vocoder": load("train_vocoder", VocoderTrainConfig, project / PARAMS),
    }
    folders = {name: {kind: temporary / name / kind for kind in KINDS} for name in ("ptq", "qat", "control")}
    folders["float"] = {kind: project / "models" / role for kind, role in KINDS.items()}
    losses, shipped = {}, {}
    data = Data(project / "data" / "features", None, temporary / "runs")
    for kind in KINDS:
        ptq = post_train(kind, folders["float"][kind], data.features, dataclasses.asdict(settings[kind]), config)
        ptq.save(folders["ptq"][kind])
        for start, end in (("ptq", "qat"), ("float", "control")):
            begin, out = folders[start][kind], folders[end][kind]
            train_on(kind, begin, folders["float"][kind], data, out, settings[kind], config)
        compared = decide(ptq, folders["qat"][kind], config)[1]["figures"]
        needed = config.why_not_trained(kind, ptq.above_float) is None
        shipped[kind], report = decide(ptq, folders["qat"][kind] if needed else None, config)
        control = ptq.judge(load_model(folders["control"][kind], kind)[0])
        losses[kind] = compared | {"control": summary(control) | {"above_float": above(control, ptq.as_float)}}
        losses[kind]["sentence"] = report["sentence"]
    return folders, losses, shipped


def export_all(
    project: Path, folders: dict[str, dict[str, Path]], shipped: dict[str, str], temporary: Path
) -> dict[str, System]:
    """The bundles' variants by system: float, control, ptq, qat, and the one that ships: ptq, qat or a mixture."""
    methods = set(shipped.values())
    folders = folders | {"mixture": {kind: folders[shipped[kind]][kind] for kind in KINDS}}
    store = FeatureStore.open(project / "data" / "features")
    lengths, config = corpus_lengths(store.tokens_count, store.frames), load("export", ExportConfig, project / PARAMS)
    systems: dict[str, System] = {}
    pairs = [("float", "ptq"), ("control", "qat")] + ([("float", "mixture")] if len(methods) > 1 else [])
    for as_float, int8 in pairs:
        bundle = temporary / "voices" / int8
        quantized = folders[int8]["acoustic"], folders[int8]["vocoder"]
        sources = Sources(folders[as_float]["acoustic"], folders[as_float]["vocoder"], quantized=quantized)
        export_variants(sources, bundle, lengths, config)
        systems |= {as_float: System(bundle, "fp32"), int8: System(bundle, "int8")}
    return systems | {"shipped": systems["mixture" if len(methods) > 1 else methods.pop()]}


def listen(project: Path, systems: dict[str, System], sentences: int | None) -> dict[str, ErrorCounts]:
    """The recogniser's errors on the same sentences of each system."""
    config = load("recognizer", RecognizerConfig, project / PARAMS)
    manifest = read_manifest(project / "data" / "prepared" / "manifest.jsonl")
    utterances = held_out(manifest, sentences or config.sentences)
    references = [spoken_text(utterance) for utterance in utterances]
    language = utterances[0].language
    counts: dict[System, ErrorCounts] = {}
    for system in dict.fromkeys(systems.values()):
        rendered = render(system.bundle, None, [system.variant], utterances, project / "data" / "corpus")
        clips = [Clip(samples, rendered.rate) for samples in rendered.sounds[system.variant]]
        counts[system] = score(references, transcribe(clips, config.name, language), Normalizer(language))
    return {name: counts[system] for name, system in systems.items()}


def size_of(system: System) -> int:
    graphs = Voice.load(system.bundle, variant=system.variant).description.graphs
    return sum(graph.variants[system.variant].bytes for graph in graphs.values())


def race(systems: dict[str, System], repeats: int) -> dict[str, Any]:
    """A sentence on one thread by every system alternately: `{system: {ms, speedup, speedup_ci95}}`; speedup is
    over float."""
    text = "The train was late again, so we walked along the river."
    voices = {system.name: Voice.load(system.bundle, threads=1, variant=system.variant) for system in systems.values()}
    speaker = voices[systems["float"].name]
    tokens = speaker.symbols.to_tokens(speaker.frontend.speak(text).phonemes).astype(np.int64)[None]
    one = np.ones(1, np.int64)
    inputs = (tokens, one * tokens.shape[1], 0 * one, one.astype(np.float32))
    work = {name: partial(voice.synthesize, *inputs) for name, voice in voices.items()}
    took = take_turns(work, seconds=0.0, least=repeats)
    as_float = took[systems["float"].name]
    return {
        name: {"ms": round(1000 * float(np.median(took[system.name])), 2)} | ratio(as_float, took[system.name])
        for name, system in systems.items()
    }


if __name__ == "__main__":
    run(main)
