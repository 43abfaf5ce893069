"""The whole judgement of a voice: what is spoken, recognised, compared and timed becomes one set of figures. Knows no HTML.

Its parts are beside it, one a file; here they are only put together.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sonorant.audio.wav import read_audio
from sonorant.data.manifest import Utterance, read_manifest
from sonorant.errors import SonorantError
from sonorant.evaluation.distances import distances
from sonorant.evaluation.distances import summarize as summarize_distances
from sonorant.evaluation.environment import describe_environment
from sonorant.evaluation.error_rates import ErrorCounts, compare, summarize
from sonorant.evaluation.latency import measure, sentence_classes
from sonorant.evaluation.normalizer import Normalizer
from sonorant.evaluation.recognizers import load_recognizer
from sonorant.evaluation.recordings import RecognizedRecordings, read_recognized, score
from sonorant.evaluation.renderings import Rendering, render
from sonorant.evaluation.self_test import REPEATED_CLIPS, check_ears, check_texts, noise_clips
from sonorant.evaluation.transcription import Clip, transcribe
from sonorant.files import read_json
from sonorant.runtime.bundle import Bundle
from sonorant.runtime.voice import Voice


@dataclass(frozen=True, kw_only=True)
class EvaluateConfig:
    """How precisely is judged: section `evaluate` of the settings."""

    bootstrap: int
    """Resamples behind each 95 % interval."""
    latency_repeats: int
    """Timed runs of each sentence class, runtime and number of threads."""

    def __post_init__(self) -> None:
        for name, least in (("bootstrap", 100), ("latency_repeats", 3)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be at least {least}, not {getattr(self, name)}")


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """Where what is judged lies."""

    corpus: Path
    """Folder that the manifest's audio paths are relative to."""
    manifest: Path
    """The prepared manifest."""
    recordings: Path
    """What the stage `recognize_recordings` wrote."""
    voice: Path
    """The bundle."""
    trained: tuple[Path, Path]
    """Trained folders of the acoustic model and the vocoder, for the torch runtime."""
    parity: Path
    """What the stage `verify` wrote."""


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """A voice judged."""

    metrics: dict[str, Any]
    """The content of `metrics.json`."""
    references: tuple[str, ...]
    """What was to be said, one entry a sentence, as for the others here."""
    transcripts: dict[str, tuple[str, ...]]
    """What was heard in the recordings, the vocoder's copies and the voice."""
    counts: dict[str, ErrorCounts]
    """Errors of the same three."""
    renderings: tuple[Rendering, ...]
    """The sound."""
    sample_rate: int
    """Hz of the sound."""
    normalizer: Normalizer
    """How texts were compared."""


def evaluate(inputs: Inputs, config: EvaluateConfig, recognizer: str) -> Evaluation:
    """Judge a voice bundle on the sentences that `recognize_recordings` chose. `recognizer`: its name in the settings.

    Raises SonorantError if an input is missing or made by other settings, or the evaluator's self-test fails.
    """
    known = read_recognized(inputs.recordings)
    _check_same_recognizer(known, recognizer, inputs.recordings)
    normalizer = Normalizer(known.language)
    texts_tested = check_texts(known.references, known.transcripts, normalizer)
    voice = Voice.load(inputs.voice)
    sentences = _chosen(inputs, known)
    renderings = tuple(render(voice, sentences, inputs.corpus))
    recordings = [Clip(*read_audio(inputs.corpus / str(sentence.audio))) for sentence in sentences[:REPEATED_CLIPS]]
    transcripts, ears_tested = _listen(renderings, voice.sample_rate, recordings, known, recognizer, normalizer)
    counts = {kind: score(known.references, heard, normalizer) for kind, heard in transcripts.items()}
    beside = {"recognizer": known.recognizer, "revision": known.revision, "normalizer": normalizer.name}
    metrics = {
        "intelligibility": _intelligibility(counts, config.bootstrap, beside),
        "naturalness": _naturalness(renderings, voice.sample_rate),
        "speed": measure(inputs.voice, inputs.trained, sentence_classes([r.tokens for r in renderings]), config.latency_repeats),
        "size": _size(voice.bundle),
        "parity": read_parity(inputs.parity),
        "evaluator": {"passed": True, "sentences": len(known.ids), "sentences_requested": known.requested}
        | texts_tested
        | ears_tested,
        "environment": describe_environment(),
    }
    return Evaluation(
        metrics=metrics,
        references=known.references,
        transcripts=transcripts,
        counts=counts,
        renderings=renderings,
        sample_rate=voice.sample_rate,
        normalizer=normalizer,
    )


def _check_same_recognizer(known: RecognizedRecordings, name: str, path: Path) -> None:
    revision = load_recognizer(name, known.language).revision
    if revision != known.revision:
        raise SonorantError(f"{path}: made with '{known.revision}', here is '{revision}'; run recognize_recordings again")


def _chosen(inputs: Inputs, known: RecognizedRecordings) -> list[Utterance]:
    by_id = {utterance.id: utterance for utterance in read_manifest(inputs.manifest)}
    missing = [sentence for sentence in known.ids if sentence not in by_id]
    if missing:
        raise SonorantError(
            f"{inputs.recordings}: utterance '{missing[0]}' is not in {inputs.manifest}; run recognize_recordings again"
        )
    return [by_id[sentence] for sentence in known.ids]


def _listen(
    renderings: tuple[Rendering, ...],
    rate: int,
    recordings: list[Clip],
    known: RecognizedRecordings,
    recognizer: str,
    normalizer: Normalizer,
) -> tuple[dict[str, tuple[str, ...]], dict[str, Any]]:
    """Recognise vocoder's copies and voice, and what the self-test wants heard, in one go: every core stays busy to the end."""
    groups = {
        "noise": noise_clips(recordings),
        "repeated": recordings,
        "vocoder": [Clip(r.vocoder, rate) for r in renderings],
        "voice": [Clip(r.voice, rate) for r in renderings],
    }
    heard = transcribe([clip for group in groups.values() for clip in group], recognizer, known.language)
    texts: dict[str, tuple[str, ...]] = {}
    for name, group in groups.items():
        texts[name], heard = tuple(heard[: len(group)]), heard[len(group) :]
    tested = check_ears(known.references, known.transcripts, texts["noise"], texts["repeated"], normalizer)
    return {"recordings": known.transcripts, "vocoder": texts["vocoder"], "voice": texts["voice"]}, tested


def _intelligibility(counts: dict[str, ErrorCounts], resamples: int, beside: dict[str, str]) -> dict[str, Any]:
    summaries = {kind: summarize(count, resamples) | beside for kind, count in counts.items()}
    for kind in ("vocoder", "voice"):
        summaries[kind]["above_recordings"] = compare(counts[kind], counts["recordings"], resamples)
    return summaries


def _naturalness(renderings: tuple[Rendering, ...], rate: int) -> dict[str, Any]:
    kinds = ("vocoder", "voice")
    measured = distances([(r.samples(kind), r.recording, rate) for kind in kinds for r in renderings])
    half = len(renderings)
    return {"vocoder": summarize_distances(measured[:half]), "voice": summarize_distances(measured[half:])}


def _size(bundle: Bundle) -> dict[str, Any]:
    graphs = {
        name: {variant: file.bytes for variant, file in graph.variants.items()} for name, graph in bundle.description.graphs.items()
    }
    return {"bundle_bytes": sum(file.stat().st_size for file in bundle.folder.rglob("*") if file.is_file()), "graph_bytes": graphs}


def read_parity(path: Path) -> dict[str, Any]:
    """`{graph: {max_abs_diff, tolerance}}` from the report of `verify`. Raises SonorantError naming the file if it is something else."""
    try:
        return {graph: {key: row[key] for key in ("max_abs_diff", "tolerance")} for graph, row in read_json(path).items()}
    except (AttributeError, KeyError, TypeError) as error:
        raise SonorantError(f"{path}: not what the stage verify writes ({error}); run it again") from None
