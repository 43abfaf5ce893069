"""Write an evaluation's transcripts and audio samples."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sonorant.audio.wav import write_wav
from sonorant.evaluation.estimates import Figures
from sonorant.evaluation.recordings import RECORDINGS
from sonorant.files import atomic_folder, write_json, write_jsonl
from sonorant.speech.runtimes import BASELINE

if TYPE_CHECKING:  # Import for types only: the report uses the file names.
    from sonorant.evaluation.evaluation import Evaluation
    from sonorant.evaluation.renderings import Renderings
    from sonorant.evaluation.short_texts.judgement import Judged

RUNTIME = BASELINE.split("/")[0]
FIRST, WORST = 3, 3
"""Number of sentences from the start, and of sentences with the highest error rates."""
SAMPLE_OF = {"recordings": "recording"}

SHORT_TEXTS = "short_texts.jsonl"
WORST_SHORT = 6


def sample_file(folder: Path, sentence: str, index: int, kind: str) -> Path:
    """Return `samples/<id>.<recording | vocoder | variant>.wav` in `folder` for sentence `index` (from 0)."""
    # Replace slashes in ids, and add the index to keep names unique.
    plain = "".join(character if character.isalnum() or character in "-_" else "_" for character in sentence)
    stem = plain if plain == sentence else f"{plain}-{index}"
    return folder / "samples" / f"{stem}.{SAMPLE_OF.get(kind, kind)}.wav"


def write_samples(out: Path, evaluation: Evaluation) -> None:
    """Write `sentences.jsonl`, `short_texts.jsonl` and samples to the folder `out` atomically."""
    renderings = evaluation.renderings
    with atomic_folder(out) as folder:
        write_jsonl(folder / "sentences.jsonl", _sentences(evaluation))
        _write_short_texts(folder, evaluation.short_texts.judged)
        for index in chosen(evaluation):
            for kind, sounds in renderings.sounds.items():
                write_wav(sample_file(folder, renderings.ids[index], index, kind), sounds[index], renderings.rate)


def write_family(out: Path, evaluation: Evaluation) -> None:
    """Write `family.json`, `sentences.jsonl` and a few samples to `out` for the reports of different families.

    `family.json` contains `family`, `sentences` (number, and a hash of recordings and recogniser to check
    comparability) and `variants`. Samples are the recording and first variant of the first sentences.
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


def family_figures(metrics: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], variants: Sequence[str]) -> Figures:
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


def _sentences(evaluation: Evaluation) -> list[Figures]:
    known, renderings, words = evaluation.known, evaluation.renderings, evaluation.words
    lengths = evaluation.lengths
    unheard = known.not_run and dict.fromkeys(renderings.sounds, known.not_run)
    return [
        {
            "id": sentence,
            "reference": known.references[index],
            "speaker": evaluation.sound.speakers[index],
            "words": lengths[index],
            "transcripts": unheard or {kind: texts[index] for kind, texts in words.transcripts.items()},
            "word_errors": unheard or {kind: int(counts.word_errors[index]) for kind, counts in words.counts.items()},
            "finish_reasons": {kind: decoded[index].finish_reason for kind, decoded in renderings.decoded.items()},
            "timings": _timings(renderings, index),
            "dnsmos": {
                kind: round(float(scores[index]), 3)
                for kind, scores in evaluation.sound.opinions.items()
                if index < len(scores)
            },
        }
        for index, sentence in enumerate(renderings.ids)
    ]


def _timings(renderings: Renderings, index: int) -> Figures:
    if renderings.untimed:
        return dict.fromkeys(renderings.variants, f"not run: {renderings.untimed}")
    return {
        variant: [[word.written, round(word.start, 3), round(word.end, 3)] for word in told[index]]
        for variant, told in renderings.timings.items()
        if variant in renderings.sounds
    }


def chosen(evaluation: Evaluation) -> list[int]:
    """Return the indices of sentences with samples: the first, then those with the highest word error rates over all
    variants, if transcribed."""
    words, first = np.array(evaluation.lengths), range(min(FIRST, len(evaluation.lengths)))
    if evaluation.known.not_run:
        return list(range(min(FIRST + WORST, len(words))))
    counts = evaluation.words.counts
    errors = np.sum([counts[variant].word_errors for variant in evaluation.renderings.variants], axis=0)
    worst = sorted(range(FIRST, len(words)), key=lambda index: (-errors[index] / words[index], index))
    return [*first, *worst[:WORST]]


def _write_short_texts(folder: Path, judged: Sequence[Judged]) -> None:
    """Write `short_texts.jsonl` to an evaluation's folder, with `by`, `kind`, `text`, `words`, `heard`, `faults` by
    type and, for the worst of each variant, `sample` (WAV file)."""
    write_jsonl(folder / SHORT_TEXTS, (_short_row(each, name) for each, name in _named(folder, judged)))


def worst_first(judged: Sequence[Judged]) -> list[Judged]:
    faulty = [each for each in judged if each.faults]
    return sorted(faulty, key=lambda each: (-each.faults.count / len(each.words), each.kind, each.text))


def _named(folder: Path, judged: Sequence[Judged]) -> Iterator[tuple[Judged, str | None]]:
    names = {}
    for by in sorted({each.by for each in judged} - {RECORDINGS}):
        for number, each in enumerate(worst_first([each for each in judged if each.by == by])[:WORST_SHORT], 1):
            names[id(each)] = f"short_texts/{number}.{by}.wav"
            write_wav(folder / names[id(each)], each.sound.samples, each.sound.rate)
    for each in judged:
        yield each, names.get(id(each))


def _short_row(each: Judged, sample: str | None) -> Figures:
    row = {key: getattr(each, key) for key in ("by", "kind", "text", "heard")}
    return row | {"words": len(each.words), "faults": dataclasses.asdict(each.faults), "sample": sample}
