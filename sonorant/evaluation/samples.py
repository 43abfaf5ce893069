"""An evaluation's sentences as files: what was heard in each, and sound to listen to. Knows nothing of how the report shows them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from sonorant.audio.wav import write_wav
from sonorant.evaluation.evaluation import Evaluation
from sonorant.evaluation.renderings import RECORDINGS
from sonorant.evaluation.sample_files import sample_file
from sonorant.files import atomic_folder, write_jsonl

FIRST, WORST = 3, 3
"""Sentences to listen to: the first, which nobody picked, and of the others those the variants were understood worst in."""


def write_samples(out: Path, evaluation: Evaluation) -> None:
    """Write `sentences.jsonl` and `samples/<id>.<recording | vocoder | variant>.wav` into the folder `out`, all or nothing."""
    renderings = evaluation.renderings
    with atomic_folder(out) as folder:
        write_jsonl(folder / "sentences.jsonl", _sentences(evaluation))
        for index in chosen(evaluation):
            for kind, sounds in renderings.sounds.items():
                write_wav(sample_file(folder, renderings.ids[index], index, kind), sounds[index], renderings.rate)


def _sentences(evaluation: Evaluation) -> list[dict[str, Any]]:
    return [
        {
            "id": sentence,
            "reference": evaluation.references[index],
            "words": int(evaluation.counts[RECORDINGS].words[index]),
            "transcripts": {kind: texts[index] for kind, texts in evaluation.transcripts.items()},
            "word_errors": {kind: int(counts.word_errors[index]) for kind, counts in evaluation.counts.items()},
            "dnsmos": {kind: round(float(scores[index]), 3) for kind, scores in evaluation.opinions.items() if index < len(scores)},
        }
        for index, sentence in enumerate(evaluation.renderings.ids)
    ]


def chosen(evaluation: Evaluation) -> list[int]:
    """Indices of the sentences to listen to: the first ones, then those with the most wrong words over all variants."""
    words = evaluation.counts[RECORDINGS].words
    errors = np.sum([evaluation.counts[variant].word_errors for variant in evaluation.renderings.variants], axis=0)
    rest = range(FIRST, len(words))
    worst = sorted(rest, key=lambda index: (-errors[index] / words[index], index))
    return [*range(min(FIRST, len(words))), *worst[:WORST]]
