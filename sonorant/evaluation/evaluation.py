"""Evaluate a voice: speed, size, word errors, naturalness and distances from the recordings."""

import platform
import re
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Literal

from sonorant.audio.recognizers import load_recognizer, not_heard
from sonorant.checked import Count, Interval
from sonorant.corpus.manifest import Utterance, read_manifest
from sonorant.errors import SonorantError
from sonorant.evaluation.error_rates import Normalizer
from sonorant.evaluation.estimates import Figures
from sonorant.evaluation.latency import FIRST_AUDIO_SENTENCES, measure, measure_first_audio, sentence_classes
from sonorant.evaluation.measured_candidates import (
    certainly_slower,
    judged_variants,
    measure_memory,
    read_parity,
    size,
    timed_candidates,
)
from sonorant.evaluation.naturalness import JudgedSound, judge_sound
from sonorant.evaluation.recordings import RecognizedRecordings, read_recognized
from sonorant.evaluation.renderings import Renderings, render
from sonorant.evaluation.renderings import summarize as summarize_decoded
from sonorant.evaluation.self_test import check_texts
from sonorant.evaluation.short_texts.judgement import ShortTexts, judge_short_texts
from sonorant.evaluation.speakers import by_speaker, trained_speakers
from sonorant.evaluation.words import JudgedWords, judge_words
from sonorant.plugins import load_family
from sonorant.processes import usable_cores
from sonorant.speech.bundle import read_bundle

PACKAGES = (
    "sonorant", "numpy", "scipy", "torch", "onnxruntime", "gruut", "soxr", "jiwer", "pyworld-prebuilt", "speechmos",
    "resemblyzer",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class EvaluateConfig:
    latency_repeats: Annotated[Count, Interval(ge=3)] = 50
    """Maximum number of timed rounds per sentence length, runtime and thread count."""
    mos_sentences: Annotated[Count, Interval(ge=2)] = 64
    """Number of sentences that DNSMOS rates; each takes about 0.2 s of a core per variant."""
    rare_sentences: Count = 50
    """Number of generated sentences per variant that are checked for skipped, repeated or babbled words; each takes
    about 0.1 s of a core."""
    hear: Literal["shippable", "all", "fp32"] = "shippable"
    """Variants to transcribe; `shippable` skips those significantly slower than fp32 under every runtime."""


@dataclass(frozen=True, kw_only=True)
class EvaluationInputs:
    corpus: Path
    """Base folder of the manifest's audio paths."""
    manifest: Path
    recordings: Path
    voice: Path
    trained: tuple[Path, Path]
    """Folders of the trained predictor and waveform model, for the torch runtime and for copy synthesis."""
    codes: Path
    """Token store of the stage `train_waveform`; contains only a header for the family parallel."""
    parity: Path


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    metrics: Figures
    known: RecognizedRecordings
    renderings: Renderings
    words: JudgedWords
    sound: JudgedSound
    short_texts: ShortTexts

    @property
    def lengths(self) -> list[int]:
        normalizer = Normalizer(self.known.language)
        return [len(normalizer(reference).split()) for reference in self.known.references]


def evaluate(inputs: EvaluationInputs, config: EvaluateConfig, recognizer: str) -> Evaluation:
    """Evaluate all variants that passed `verify`, under ONNX Runtime on the CPU. Timing runs first, so that variants
    too slow to ship are not transcribed.

    Raises SonorantError if an input is missing or has different settings, or if the self-test fails.
    """
    known, parity = read_recognized(inputs.recordings), read_parity(inputs.parity)
    _check_same_recognizer(known, recognizer, inputs.recordings)
    if not known.not_run:
        check_texts(known.references, known.transcripts, Normalizer(known.language))  # fail before hours of work
    (sentences, utterances), bundle = _chosen(inputs, known), read_bundle(inputs.voice)
    renderings = render(inputs.voice, inputs.trained[1], judged_variants(parity), sentences, inputs.corpus)
    candidates, classes = timed_candidates(parity), sentence_classes(renderings.tokens)
    texts = known.references[:FIRST_AUDIO_SENTENCES]
    timed: Figures = {
        "first_audio": measure_first_audio(inputs.voice, renderings.variants, texts),
        "speed": measure(inputs.voice, inputs.trained, candidates, classes, config.latency_repeats),
        "memory": measure_memory(inputs.voice, inputs.trained, candidates, classes["long"]),
    }
    unheard = {variant: why_unheard(config, variant, timed["speed"]) for variant in renderings.variants}
    renderings = renderings.without({variant: why for variant, why in unheard.items() if why})
    words = judge_words(renderings, inputs.corpus, sentences, utterances, known, recognizer)
    sound = judge_sound(renderings, [each.speaker for each in sentences], config.mos_sentences)
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
        decoding = {variant: summarize_decoded(decoded) for variant, decoded in renderings.decoded.items()}
        metrics["decoding"] = decoding | renderings.unspoken
    from sonorant.features.codes import read_header  # imports torch, which worker processes do not need

    if "report" in (codes := read_header(inputs.codes)):
        metrics["codec"] = codes["report"]
    return Evaluation(metrics=metrics, known=known, renderings=renderings, words=words, sound=sound, short_texts=short)


def why_unheard(config: EvaluateConfig, variant: str, speed: Figures) -> str | None:
    if config.hear == "shippable":
        return certainly_slower(speed, variant)
    return "evaluate.hear is fp32" if config.hear == "fp32" != variant else None


def _check_same_recognizer(known: RecognizedRecordings, name: str, path: Path) -> None:
    revision = not_heard(name, known.language) or load_recognizer(name, known.language).revision
    if revision != known.revision:
        raise SonorantError(
            f"{path}: made with '{known.revision}' instead of '{revision}'; run recognize_recordings again"
        )


def _chosen(inputs: EvaluationInputs, known: RecognizedRecordings) -> tuple[list[Utterance], list[Utterance]]:
    utterances = read_manifest(inputs.manifest)
    by_id = {utterance.id: utterance for utterance in utterances}
    try:
        return [by_id[sentence] for sentence in known.ids], utterances
    except KeyError as missing:
        raise SonorantError(
            f"{inputs.recordings}: utterance {missing} is not in {inputs.manifest}; run recognize_recordings again"
        ) from None


def describe_environment() -> Figures:
    """Describe the machine without names or paths."""
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
    info = Path("/proc/cpuinfo")  # Linux
    found = (
        re.search(r"^model name\s*: (.+)", info.read_text(encoding="utf-8"), re.MULTILINE) if info.exists() else None
    )
    return found[1] if found else platform.processor() or "unknown"
