"""What the audit is worth to a voice: three acoustic models that differ in their training data alone.

Faults are planted into the training split, as in `benchmarks.audit`. One model learns from that, one from what the
audit leaves of it (`audit.drop_above` at `audit.doubt`), one from the data without faults. They share settings, seed
and vocoder, and are judged on the same clean held-out sentences. Claims that the audited voice has not certainly more
words wrong than the faulty one; what it gains is reported, whatever it is. A training that was stopped goes on.
"""

import random
import tempfile
from argparse import Namespace
from collections import Counter
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.audit import SHARES, plant, source_of
from benchmarks.report import command, finish, options
from sonorant.audio.conditioning import ConditionConfig
from sonorant.audio.mel import MelConfig
from sonorant.audio.recognizers import Clip, RecognizerConfig, transcribe
from sonorant.corpus.audit.audit import AuditConfig, audit
from sonorant.corpus.importers import import_corpus
from sonorant.corpus.manifest import Utterance, read_manifest, write_manifest
from sonorant.corpus.preparation import PrepareConfig, prepare
from sonorant.evaluation.error_rates import ErrorCounts, Normalizer, compare, summarize
from sonorant.evaluation.recordings import RECORDINGS, held_out, score, spoken_text
from sonorant.evaluation.renderings import render
from sonorant.export.bundling import corpus_lengths, export_voice
from sonorant.export.onnx_graph import ExportConfig
from sonorant.export.quantization.kept_model import above, summary
from sonorant.export.quantization.utterance_losses import Judged
from sonorant.features.feature_store import FeatureStore
from sonorant.features.feature_writer import write_features
from sonorant.layers.model_folder import load_model
from sonorant.plugins import model_kind
from sonorant.text import TextConfig
from sonorant.training.recipe import utterances_of
from tasks.params import load
from tasks.stage import run
from tasks.training import train
from tests.support.synthetic_corpus import store_beside

CLEAN, FAULTY, AUDITED = "clean", "faulty", "audited"
RESAMPLES = 2000
CLAIM = "the audited voice has not certainly more words wrong than the faulty one"
SHORT = {"prompts": 200, "aligner_steps": 20, "acoustic_steps": 4, "vocoder_steps": 4, "sentences": 2}


@dataclass(frozen=True)
class Data:
    """A corpus, and the utterances of it that are learned from and held out."""

    corpus: Path
    utterances: list[Utterance]

    @property
    def learned(self) -> dict[str, Utterance]:
        """The training split by id."""
        return {utterance.id: utterance for utterance in self.utterances if utterance.split == "train"}


def main() -> None:
    """Plant, audit, train, export, listen, print the verdict."""
    parser = command(__doc__)
    add = parser.add_argument
    add("--source", type=Path, help="folder with metadata.csv and wavs/; without it flite speaks the demo's prompts")
    add("--prompts", type=int, default=1200, help="prompts for flite (default 1200)")
    add("--times", type=float, default=1.0, help=f"factor on the shares of faults, {SHARES} (default 1)")
    add("--seed", type=int, default=1, help="which utterances are made faulty, and how (default 1)")
    add("--test", type=float, default=0.2, help="share of the texts that is held out to judge (default 0.2)")
    add("--sentences", type=int, default=160, help="held-out sentences to judge at most (default 160)")
    add("--aligner-steps", type=int, help="training steps of an aligner (default: audit.steps)")
    add("--acoustic-steps", type=int, default=1500, help="default 1500")
    add("--vocoder-steps", type=int, default=1000, help="default 1000")
    add("--cache", type=Path, help="folder of trainings and of what was found, to go on with")
    arguments = options(parser, SHORT)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        result, speech = measure(folder, arguments.cache or folder / "cache", arguments)
    finish("audit_worth", result, claims_of(speech), arguments)


def claims_of(speech: dict[str, Any]) -> dict[str, bool]:
    """The claim about the voices' words."""
    return {CLAIM: speech[AUDITED][f"above_{FAULTY}"]["wer_ci95"][0] <= 0}


def measure(folder: Path, cache: Path, arguments: Namespace) -> tuple[dict[str, Any], dict[str, Any]]:
    """All figures, and the voices' words among them."""
    clean = prepared(folder / CLEAN, cache, arguments)
    faulty, planted = with_faults(clean, folder / FAULTY, cache, arguments)
    audited, doubt = after_audit(faulty, folder, cache, arguments)
    data = {FAULTY: faulty, AUDITED: audited, CLEAN: clean}
    features = {name: folder / "features" / name for name in data}
    audio, text = load("audio", MelConfig), load("text", TextConfig)
    for name, own in data.items():
        write_features(own.corpus, own.utterances, features[name], audio, text, store=store_beside(features[name], 128))
    vocoder = trained("vocoder", arguments.vocoder_steps, features[CLEAN], cache, folder / "models/vocoder")
    models = {
        name: trained("acoustic", arguments.acoustic_steps, features[name], cache, folder / "models" / name)
        for name in data
    }
    bundles = {name: exported(models[name], vocoder, features[name], folder / "voices" / name) for name in data}
    sentences = held_out(clean.utterances, arguments.sentences)
    speech = words(listen(bundles, sentences, clean.corpus))
    return {
        "source": "recordings" if arguments.source else "flite",
        "settings": {key: getattr(arguments, key) for key in ("times", "seed", "acoustic_steps", "vocoder_steps")},
        "data": counted(data, planted) | {"doubt": doubt},
        "wer": speech,
        "mel": mels(models, features[CLEAN]),
    }, speech


def prepared(folder: Path, cache: Path, arguments: Namespace) -> Data:
    """The corpus without planted faults."""
    import_corpus(*source_of(arguments.source, arguments.prompts, folder / "corpus"))
    return _prepared(folder, cache, arguments)


def _prepared(folder: Path, cache: Path, arguments: Namespace) -> Data:
    # Faults may make `prepare` reject more than its settings allow.
    settings = replace(load("prepare", PrepareConfig), test=arguments.test, max_rejected=1.0)
    frontend, condition = load("text", TextConfig).frontend, load("condition", ConditionConfig)
    corpus, out = folder / "corpus", folder / "prepared"
    prepare(corpus, out, settings, frontend, condition=condition, cache=cache / "found")
    return Data(corpus, read_manifest(out / "manifest.jsonl"))


def with_faults(clean: Data, folder: Path, cache: Path, arguments: Namespace) -> tuple[Data, dict[str, str]]:
    """The same corpus with faults in its training split, and their kinds by id."""
    import_corpus(*source_of(arguments.source, arguments.prompts, folder / "corpus"))
    planted = plant(folder / "corpus", random.Random(arguments.seed), clean.learned, arguments.times)
    faulty = _prepared(folder, cache, arguments)
    split = {utterance.id: utterance.split for utterance in clean.utterances}  # another text may have moved it
    rows = [replace(utterance, split=split[utterance.id]) for utterance in faulty.utterances if utterance.id in split]
    write_manifest(folder / "prepared" / "manifest.jsonl", rows)
    return Data(faulty.corpus, rows), planted


def after_audit(faulty: Data, folder: Path, cache: Path, arguments: Namespace) -> tuple[Data, float]:
    """What the audit leaves of the training split, beside all that is held out; and from which score it drops."""
    config = load("audit", AuditConfig)
    config = replace(config, steps=arguments.aligner_steps or config.steps, drop_above=config.doubt)
    inputs = faulty.corpus, folder / FAULTY / "prepared", folder / AUDITED
    audit(*inputs, config, load("text", TextConfig).frontend, cache=cache / "found")
    kept = {utterance.id for utterance in read_manifest(folder / AUDITED / "manifest.jsonl")}
    rows = [utterance for utterance in faulty.utterances if utterance.id in kept or utterance.split != "train"]
    return Data(faulty.corpus, rows), config.doubt


def counted(data: dict[str, Data], planted: dict[str, str]) -> dict[str, Any]:
    """Utterances that each model learns from, and the planted faults among them by group."""
    return {
        name: {
            "utterances": len(own.learned),
            "hours": round(sum(utterance.seconds or 0.0 for utterance in own.learned.values()) / 3600, 3),
            "faults": Counter(planted[id].split(":")[0] for id in own.learned if id in planted and name != CLEAN),
        }
        for name, own in data.items()
    }


def trained(kind: str, steps: int, features: Path, cache: Path, out: Path) -> Path:
    """The folder of a model of this kind, trained by params.yaml for so many steps."""
    sizes: Any = load(kind, model_kind(kind).sizes())
    settings: Any = load(f"train_{kind}", model_kind(kind).settings())
    train(kind, asdict(sizes), asdict(settings) | {"steps": steps}, features=features, runs=cache / "runs", out=out)
    return out


def exported(acoustic: Path, vocoder: Path, features: Path, out: Path) -> Path:
    """The bundle of a voice, in fp32."""
    store = FeatureStore.open(features)
    export_voice(acoustic, vocoder, out, corpus_lengths(store.tokens_count, store.frames), load("export", ExportConfig))
    return out


def listen(bundles: dict[str, Path], sentences: list[Utterance], corpus: Path) -> dict[str, ErrorCounts]:
    """The recogniser's errors in the recordings, and in what each voice says."""
    sounds = {}
    for name, bundle in bundles.items():
        rendered = render(bundle, None, ["fp32"], sentences, corpus)
        sounds[name], sounds[RECORDINGS] = rendered.sounds["fp32"], rendered.sounds[RECORDINGS]
    clips = [Clip(samples, rendered.rate) for spoken in sounds.values() for samples in spoken]
    language, references = sentences[0].language, [spoken_text(sentence) for sentence in sentences]
    heard = iter(transcribe(clips, load("recognizer", RecognizerConfig).name, language))
    normalizer = Normalizer(language)
    return {name: score(references, [next(heard) for _ in sentences], normalizer) for name in sounds}


def words(heard: dict[str, ErrorCounts]) -> dict[str, Any]:
    """Error rates of each, and each pair of voices compared on the same sentences."""
    speech = {name: summarize(counts, RESAMPLES) for name, counts in heard.items()}
    for one, other in ((AUDITED, FAULTY), (AUDITED, CLEAN), (FAULTY, CLEAN)):
        speech[one][f"above_{other}"] = compare(heard[one], heard[other], RESAMPLES)
    return speech


def mels(models: dict[str, Path], features: Path) -> dict[str, Any]:
    """How far each model's mel is from the recordings' in the clean test split, with the clean model's durations."""
    clean, described = load_model(models[CLEAN], "acoustic")
    kind = model_kind("acoustic")
    recipe = kind.recipe(described["config"], asdict(load("train_acoustic", kind.settings())), features, None)
    judge = kind.judge(recipe, clean, utterances_of(recipe.store, "test"))
    judged: dict[str, Judged] = {name: judge(load_model(model, "acoustic")[0]) for name, model in models.items()}
    pairs = ((AUDITED, FAULTY), (AUDITED, CLEAN), (FAULTY, CLEAN))
    found: dict[str, Any] = {name: summary(one) for name, one in judged.items()}
    for one, other in pairs:
        found[one][f"above_{other}"] = above(judged[one], judged[other])
    return found


if __name__ == "__main__":
    run(main)
