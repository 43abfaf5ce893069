"""An evaluation's sentences as files: what was heard in each, and sound to listen to. Knows nothing of how the report shows them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from sonorant.audio.wav import write_wav
from sonorant.evaluation.evaluation import Evaluation
from sonorant.evaluation.renderings import RECORDINGS
from sonorant.files import atomic_folder, write_jsonl

FIRST, WORST = 3, 3
"""Sentences to listen to: the first, which nobody picked, and of the others those the variants were understood worst in."""
SAMPLE_OF = {RECORDINGS: "recording"}
"""How a sample's file names a kind, where that differs."""


def write_samples(out: Path, evaluation: Evaluation) -> None:
    """Write `sentences.jsonl` and `samples/<id>.<recording | vocoder | variant>.wav` into the folder `out`, all or nothing."""
    renderings = evaluation.renderings
    with atomic_folder(out) as folder:
        write_jsonl(folder / "sentences.jsonl", _sentences(evaluation))
        for index in chosen(evaluation):
            for kind, sounds in renderings.sounds.items():
                wav = folder / "samples" / f"{_stem(renderings.ids[index], index)}.{SAMPLE_OF.get(kind, kind)}.wav"
                write_wav(wav, sounds[index], renderings.rate)


def _sentences(evaluation: Evaluation) -> list[dict[str, Any]]:
    return [
        {
            "id": sentence,
            "reference": evaluation.references[index],
            "words": int(evaluation.counts[RECORDINGS].words[index]),
            "transcripts": {kind: texts[index] for kind, texts in evaluation.transcripts.items()},
            "word_errors": {kind: int(counts.word_errors[index]) for kind, counts in evaluation.counts.items()},
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


def _stem(sentence: str, index: int) -> str:
    # An id may hold slashes; its file must not leave the folder. The number keeps two ids apart that differ in such characters only.
    plain = "".join(character if character.isalnum() or character in "-_" else "_" for character in sentence)
    return plain if plain == sentence else f"{plain}-{index}"
