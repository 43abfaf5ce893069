"""Transcribe all renderings, count word errors and run the recogniser's self-test."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sonorant.audio.recognizers import Clip, transcribe
from sonorant.corpus.manifest import Utterance
from sonorant.corpus.sound import read_sound
from sonorant.corpus.splits import read_in_training, text_key
from sonorant.evaluation.error_rates import ErrorCounts, Normalizer, compare, summarize
from sonorant.evaluation.estimates import Figures
from sonorant.evaluation.recordings import RECORDINGS, VOCODER, RecognizedRecordings, score
from sonorant.evaluation.renderings import Renderings
from sonorant.evaluation.self_test import (
    REPEATED_CLIPS,
    check_ears,
    check_planted,
    check_sound,
    check_texts,
    noise_clips,
    planted_clips,
)


@dataclass(frozen=True, kw_only=True)
class JudgedWords:
    transcripts: dict[str, tuple[str, ...]]
    """Transcripts of all sentences for recordings, copies and each variant; empty if the recogniser did not run."""
    counts: dict[str, ErrorCounts]
    figures: Figures
    tested: Figures
    """Self-test results; if the recogniser did not run, `passed` is the reason."""


def judge_words(
    renderings: Renderings,
    corpus: Path,
    sentences: Sequence[Utterance],
    utterances: Sequence[Utterance],
    known: RecognizedRecordings,
    recognizer: str,
) -> JudgedWords:
    """Transcribe the `sentences` and count errors, if the recogniser supports the language. Raises SonorantError if
    a sound is missing or the self-test fails."""
    if known.not_run:
        _check_sounds(renderings)
        tested = {"passed": known.not_run, "sentences": len(known.ids)}
        figures: Figures = dict.fromkeys(renderings.sounds, known.not_run)
        return JudgedWords(transcripts={}, counts={}, figures=figures, tested=tested)
    normalizer = Normalizer(known.language)
    tested = {"passed": True, "sentences": len(known.ids), "sentences_requested": known.requested}
    tested |= check_texts(known.references, known.transcripts, normalizer)
    repeated = [Clip(*read_sound(corpus, sentence)) for sentence in sentences[:REPEATED_CLIPS]]
    transcripts, ears_tested = listen(renderings, repeated, known, recognizer, normalizer)
    counts = {kind: score(known.references, heard, normalizer) for kind, heard in transcripts.items()}
    figures = intelligibility(counts, _beside(known, sentences, utterances))
    return JudgedWords(transcripts=transcripts, counts=counts, figures=figures, tested=tested | ears_tested)


def _check_sounds(renderings: Renderings) -> None:
    for kind in (VOCODER, renderings.variants[0]):
        check_sound(kind, [Clip(samples, renderings.rate) for samples in renderings.sounds[kind]])


def _beside(known: RecognizedRecordings, sentences: Sequence[Utterance], utterances: Sequence[Utterance]) -> Figures:
    read = read_in_training(utterances)
    return {
        "recognizer": known.recognizer,
        "revision": known.revision,
        "normalizer": known.normalizer,
        "read_in_training": sum(text_key(sentence) in read for sentence in sentences),
    }


def listen(
    renderings: Renderings, repeated: list[Clip], known: RecognizedRecordings, recognizer: str, normalizer: Normalizer
) -> tuple[dict[str, tuple[str, ...]], Figures]:
    _check_sounds(renderings)
    spoken = {
        kind: [Clip(samples, renderings.rate) for samples in renderings.sounds[kind]] for kind in renderings.kinds
    }
    planted = {kind: planted_clips(clips[0]) for kind, clips in spoken.items()}
    heard = _transcribe_groups(
        {"noise": noise_clips(repeated), "repeated": repeated}
        | {("spoken", kind): clips for kind, clips in spoken.items()}
        | {("planted", kind): clips for kind, clips in planted.items()},
        recognizer,
        known.language,
    )
    tested = check_ears(known.references, known.transcripts, heard["noise"], heard["repeated"], normalizer)
    tested |= check_planted(known.references[0], {kind: heard["planted", kind] for kind in spoken}, normalizer)
    return {RECORDINGS: known.transcripts} | {kind: heard["spoken", kind] for kind in spoken}, tested


def _transcribe_groups(groups: dict[Any, list[Clip]], recognizer: str, language: str) -> dict[Any, tuple[str, ...]]:
    rest = iter(transcribe([clip for group in groups.values() for clip in group], recognizer, language))
    return {name: tuple(next(rest) for _ in group) for name, group in groups.items()}


def intelligibility(counts: dict[str, ErrorCounts], beside: Figures) -> Figures:
    """Return error rates per kind of sound, and paired differences from recordings and first variant."""
    summaries = {kind: summarize(count) | beside for kind, count in counts.items()}
    baseline = next(kind for kind in counts if kind not in (RECORDINGS, VOCODER))
    for kind, count in counts.items():
        if kind != RECORDINGS:
            summaries[kind]["above_recordings"] = compare(count, counts[RECORDINGS])
        if kind not in (RECORDINGS, VOCODER, baseline):
            summaries[kind][f"above_{baseline}"] = compare(count, counts[baseline])
    return summaries
