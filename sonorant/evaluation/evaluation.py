"""The whole judgement of a voice: what is spoken, timed, recognised and compared becomes one set of figures."""

import platform
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

import numpy as np

from sonorant.audio.arrays import Doubles, Ints
from sonorant.audio.recognizers import load_recognizer, not_heard
from sonorant.corpus.manifest import Utterance, read_manifest
from sonorant.errors import SonorantError
from sonorant.evaluation.error_rates import ErrorCounts, Normalizer
from sonorant.evaluation.latency import FIRST_AUDIO_SENTENCES, measure, measure_first_audio, sentence_classes
from sonorant.evaluation.measured_candidates import (
    certainly_slower,
    judged_variants,
    measure_memory,
    read_parity,
    size,
    timed_candidates,
)
from sonorant.evaluation.naturalness import judge_sound
from sonorant.evaluation.recordings import RecognizedRecordings, read_recognized
from sonorant.evaluation.renderings import Renderings, render
from sonorant.evaluation.renderings import summarize as summarize_decoded
from sonorant.evaluation.self_test import (
    check_texts,
)
from sonorant.evaluation.short_texts.judgement import ShortTexts, judge_short_texts
from sonorant.evaluation.speakers import by_speaker, trained_speakers
from sonorant.evaluation.words import judge_words
from sonorant.plugins import load_family
from sonorant.processes import usable_cores
from sonorant.speech.bundle import read_bundle

PACKAGES = (
    "sonorant", "numpy", "scipy", "torch", "onnxruntime", "gruut", "soxr", "jiwer", "pyworld-prebuilt", "speechmos",
    "resemblyzer",
)  # fmt: skip
"""Those that matter to the figures."""


@dataclass(frozen=True, kw_only=True)
class EvaluateConfig:
    """How precisely is judged: section `evaluate` of the settings."""

    bootstrap: int
    """Resamples behind each 95 % interval."""
    latency_repeats: int
    """Timed rounds of each sentence class, runtime and number of threads; fewer beyond `latency.LONGEST`."""
    mos_sentences: int
    """Sentences, the first by hash of id, whose sound DNSMOS rates; a fifth of a second of a core each, every kind."""
    rare_sentences: int = 50
    """Plain sentences that each variant speaks, beside the short texts, to be listened to for words skipped, repeated
    or babbled, and half as many of the judged ones; a tenth of a second of a core each. The default is for settings of
    before."""
    hear: Literal["shippable", "all", "fp32"] = "shippable"
    """Which variants to hear: `shippable` leaves out those that are certainly slower than fp32 under every runtime here
    and so cannot ship. The default is for settings of before."""

    def __post_init__(self) -> None:
        for name, least in (("bootstrap", 100), ("latency_repeats", 3), ("mos_sentences", 2), ("rare_sentences", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be at least {least}, not {getattr(self, name)}")


@dataclass(frozen=True, kw_only=True)
class EvaluationInputs:
    """Where what is judged lies."""

    corpus: Path
    """Folder that the manifest's audio paths are relative to."""
    manifest: Path
    """The prepared manifest."""
    recordings: Path
    """What the stage `recognize_recordings` wrote."""
    voice: Path
    """The bundle with all variants."""
    trained: tuple[Path, Path]
    """Trained folders of predictor and waveform model, for the torch runtime and the copies."""
    codes: Path
    """The token store that the stage `train_waveform` wrote; of the family parallel a header alone."""
    parity: Path
    """What the stage `verify` wrote."""


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """A voice judged."""

    metrics: dict[str, Any]
    """The content of `metrics.json`."""
    references: tuple[str, ...]
    """What was to be said, one entry a sentence, as for the others here."""
    speakers: tuple[str, ...]
    """Who says it."""
    words: Ints
    """How many words that is, (S,)."""
    not_run: str | None
    """Why the recogniser did not run; None if it did."""
    transcripts: dict[str, tuple[str, ...]]
    """What was heard in the recordings, the copies and each variant; empty if the recogniser did not run."""
    counts: dict[str, ErrorCounts]
    """Errors of the same."""
    renderings: Renderings
    """The sound of the same."""
    opinions: dict[str, Doubles]
    """Overall DNSMOS of the first sentences of the same; empty where it did not run."""
    short_texts: ShortTexts
    """Words that were skipped, repeated or babbled in short texts and many sentences."""


def evaluate(inputs: EvaluationInputs, config: EvaluateConfig, recognizer: str) -> Evaluation:
    """Judge the variants that passed `verify`, on the sentences of `recognize_recordings`, under ONNX Runtime on the
    CPU. They are timed first: nobody needs to hear those too slow to ship. If the recogniser lacks the language, the
    words are not judged, and `not run: <why>` stands in place of each error rate.

    `recognizer`: its name in the settings. Raises SonorantError if an input is missing or made by other settings, or
    the evaluator's self-test fails.
    """
    known, parity = read_recognized(inputs.recordings), read_parity(inputs.parity)
    _check_same_recognizer(known, recognizer, inputs.recordings)
    normalizer = Normalizer(known.language)
    if not known.not_run:
        check_texts(known.references, known.transcripts, normalizer)  # before hours of work
    (sentences, utterances), bundle = _chosen(inputs, known), read_bundle(inputs.voice)
    renderings = render(inputs.voice, inputs.trained[1], judged_variants(parity), sentences, inputs.corpus)
    timed = _timed(inputs, config, parity, renderings, known)
    unheard = {variant: _why_unheard(config, variant, timed["speed"]) for variant in renderings.variants}
    renderings = renderings.without({variant: why for variant, why in unheard.items() if why})
    words = judge_words(renderings, inputs.corpus, sentences, utterances, known, recognizer, config.bootstrap)
    speakers = [sentence.speaker for sentence in sentences]
    sound = judge_sound(renderings, speakers, config.mos_sentences, config.bootstrap)
    short = judge_short_texts(
        inputs.voice, renderings, known, utterances, inputs.corpus, inputs.manifest.parent, config.rare_sentences
    )
    metrics = {
        "family": bundle.description.family,
        "intelligibility": words.figures | renderings.unspoken,
        "speakers": by_speaker(words, sound, renderings, trained_speakers(utterances)),
        "confusion": sound.confusion(),
        "naturalness": sound.summary() | renderings.unspoken,
        "short_texts": short.figures,
        **timed,
        "size": size(bundle),
        "parity": parity,
        "evaluator": words.tested,
        "environment": describe_environment(),
    }
    if load_family(bundle.description.family).autoregressive:
        metrics["decoding"] = decoding(renderings) | renderings.unspoken
    from sonorant.features.codes import read_header  # here: it needs torch, the processes started here do not

    if "report" in (codes := read_header(inputs.codes)):
        metrics["codec"] = codes["report"]
    return Evaluation(
        metrics=metrics,
        references=known.references,
        speakers=tuple(speakers),
        words=np.array([len(normalizer(reference).split()) for reference in known.references]),
        not_run=known.not_run,
        transcripts=words.transcripts,
        counts=words.counts,
        renderings=renderings,
        opinions=sound.opinions,
        short_texts=short,
    )


def _why_unheard(config: EvaluateConfig, variant: str, speed: dict[str, Any]) -> str | None:
    if config.hear == "shippable":
        return certainly_slower(speed, variant)
    return "evaluate.hear is fp32" if config.hear == "fp32" != variant else None


def _timed(
    inputs: EvaluationInputs,
    config: EvaluateConfig,
    parity: dict[str, Any],
    renderings: Renderings,
    known: RecognizedRecordings,
) -> dict[str, Any]:
    """The sections of time and memory."""
    candidates, classes = timed_candidates(parity), sentence_classes(renderings.tokens)
    return {
        "first_audio": measure_first_audio(inputs.voice, renderings.variants, known.references[:FIRST_AUDIO_SENTENCES]),
        "speed": measure(inputs.voice, inputs.trained, candidates, classes, config.latency_repeats),
        "memory": measure_memory(inputs.voice, inputs.trained, candidates, classes["long"]),
    }


def _check_same_recognizer(known: RecognizedRecordings, name: str, path: Path) -> None:
    revision = not_heard(name, known.language) or load_recognizer(name, known.language).revision
    if revision != known.revision:
        raise SonorantError(
            f"{path}: made with '{known.revision}', here is '{revision}'; run recognize_recordings again"
        )


def _chosen(inputs: EvaluationInputs, known: RecognizedRecordings) -> tuple[list[Utterance], list[Utterance]]:
    """The judged sentences, and all utterances of the corpus."""
    utterances = read_manifest(inputs.manifest)
    by_id = {utterance.id: utterance for utterance in utterances}
    missing = [sentence for sentence in known.ids if sentence not in by_id]
    if missing:
        raise SonorantError(
            f"{inputs.recordings}: utterance '{missing[0]}' is not in {inputs.manifest}; run recognize_recordings again"
        )
    return [by_id[sentence] for sentence in known.ids], utterances


def decoding(renderings: Renderings) -> dict[str, Any]:
    """How often each variant ran away; nothing where it cannot."""
    return {variant: summarize_decoded(decoded) for variant, decoded in renderings.decoded.items()}


def describe_environment() -> dict[str, Any]:
    """Python, system, processor, usable cores and versions of packages; no names or paths, because reports travel."""
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cpu": _cpu_model(),
        "cores": usable_cores(),
        "packages": {package: _version(package) for package in PACKAGES},
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:  # not Linux
        return platform.processor() or "unknown"
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")
