"""Write an evaluation's transcripts and audio samples."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sonorant.audio.wav import write_wav
from sonorant.evaluation.recordings import RECORDINGS, VOCODER
from sonorant.evaluation.short_texts.short_samples import write_short_texts
from sonorant.files import atomic_folder, write_json, write_jsonl
from sonorant.speech.runtimes import BASELINE

if TYPE_CHECKING:  # Import for types only: the report uses the file names.
    from sonorant.evaluation.evaluation import Evaluation
    from sonorant.evaluation.renderings import Renderings

RUNTIME = BASELINE.split("/")[0]
"""Runtime used for transcription."""
FIRST, WORST = 3, 3
"""Samples kept: the first sentences, then those with the highest error rates."""
SAMPLE_OF = {"recordings": "recording"}
"""File name of a kind where it differs."""


def sample_file(folder: Path, sentence: str, index: int, kind: str) -> Path:
    """`samples/<id>.<recording | vocoder | variant>.wav` in `folder`, for sentence `index` (from 0)."""
    # Ids may hold slashes: replace them, and add the index to keep
    # the names unique.
    plain = "".join(character if character.isalnum() or character in "-_" else "_" for character in sentence)
    stem = plain if plain == sentence else f"{plain}-{index}"
    return folder / "samples" / f"{stem}.{SAMPLE_OF.get(kind, kind)}.wav"


def write_samples(out: Path, evaluation: Evaluation) -> None:
    """Write `sentences.jsonl`, `short_texts.jsonl` and samples to the folder `out` atomically."""
    renderings = evaluation.renderings
    with atomic_folder(out) as folder:
        write_jsonl(folder / "sentences.jsonl", _sentences(evaluation))
        write_short_texts(folder, evaluation.short_texts.judged)
        for index in chosen(evaluation):
            for kind, sounds in renderings.sounds.items():
                write_wav(sample_file(folder, renderings.ids[index], index, kind), sounds[index], renderings.rate)


def write_family(out: Path, evaluation: Evaluation) -> None:
    """Write `family.json`, `sentences.jsonl` and a few samples for another family's report to `out`.

    `family.json`: `family`, `sentences` (count, and a hash of recordings and recogniser for comparability),
    `recordings`, `copy`, `variants`. Samples: the first sentences, recording and first variant.
    """
    renderings = evaluation.renderings
    rows = _sentences(evaluation)
    with atomic_folder(out) as folder:
        write_json(folder / "family.json", family_figures(evaluation.metrics, rows, renderings.variants))
        write_jsonl(folder / "sentences.jsonl", rows)
        for index in range(min(FIRST, len(rows))):
            for kind in (RECORDINGS, renderings.variants[0]):
                path = sample_file(folder, renderings.ids[index], index, kind)
                write_wav(path, renderings.sounds[kind][index], renderings.rate)


def family_figures(
    metrics: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], variants: Sequence[str]
) -> dict[str, Any]:
    """The content of `family.json`."""
    heard, beside = metrics["intelligibility"], metrics["naturalness"]
    # Transcripts of the recordings detect different audio under equal ids and texts.
    judged_on = [[row["id"], row["reference"], row["transcripts"][RECORDINGS]] for row in rows]
    judge = heard[RECORDINGS]
    if not isinstance(judge, str):  # a string is the reason
        judge = [judge[key] for key in ("revision", "normalizer")]
    identity = json.dumps([judge, judged_on], ensure_ascii=False)
    return {
        "family": metrics["family"],
        "sentences": {"count": len(rows), "sha256": hashlib.sha256(identity.encode()).hexdigest()},
        "recordings": {"intelligibility": heard[RECORDINGS], "naturalness": beside[RECORDINGS]},
        "copy": {"intelligibility": heard[VOCODER], "naturalness": beside[VOCODER]},
        "variants": {
            variant: {
                "intelligibility": heard[variant],
                "naturalness": beside[variant],
                "size": metrics["size"].get(variant),
                "speed": metrics["speed"].get(f"{RUNTIME}/{variant}"),
                "first_audio": metrics["first_audio"].get(variant),
                "decoding": metrics.get("decoding", {}).get(variant),
            }
            for variant in variants
        },
    }


def _sentences(evaluation: Evaluation) -> list[dict[str, Any]]:
    unheard = evaluation.not_run and dict.fromkeys(evaluation.renderings.sounds, evaluation.not_run)
    return [
        {
            "id": sentence,
            "reference": evaluation.references[index],
            "speaker": evaluation.speakers[index],
            "words": int(evaluation.words[index]),
            "transcripts": unheard or {kind: texts[index] for kind, texts in evaluation.transcripts.items()},
            "word_errors": unheard
            or {kind: int(counts.word_errors[index]) for kind, counts in evaluation.counts.items()},
            "finish_reasons": {
                variant: decoded.finish_reasons[index] for variant, decoded in evaluation.renderings.decoded.items()
            },
            "timings": _timings(evaluation.renderings, index),
            "dnsmos": {
                kind: round(float(scores[index]), 3)
                for kind, scores in evaluation.opinions.items()
                if index < len(scores)
            },
        }
        for index, sentence in enumerate(evaluation.renderings.ids)
    ]


def _timings(renderings: Renderings, index: int) -> dict[str, Any]:
    """Word timings by variant: word, start and end in seconds."""
    if renderings.untimed:
        return dict.fromkeys(renderings.variants, f"not run: {renderings.untimed}")
    return {
        variant: [[word.written, round(word.start, 3), round(word.end, 3)] for word in told[index]]
        for variant, told in renderings.timings.items()
        if variant in renderings.sounds
    }


def chosen(evaluation: Evaluation) -> list[int]:
    """Indices of the sample sentences: the first, then those with most word errors over all variants. Only the first
    if nothing was transcribed."""
    words = evaluation.words
    if evaluation.not_run:
        return list(range(min(FIRST + WORST, len(words))))
    errors = np.sum([evaluation.counts[variant].word_errors for variant in evaluation.renderings.variants], axis=0)
    rest = range(FIRST, len(words))
    worst = sorted(rest, key=lambda index: (-errors[index] / words[index], index))
    return [*range(min(FIRST, len(words))), *worst[:WORST]]
