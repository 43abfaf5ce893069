"""Train a corpus's aligners, and examine each clip with an aligner not trained on it."""

import dataclasses
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import sonorant.audio
import sonorant.corpus.audit.aligner
import sonorant.corpus.audit.clip_scoring
import sonorant.corpus.audit.evidence
import sonorant.corpus.audit.planted
import sonorant.corpus.audit.readings
import sonorant.corpus.sound
import sonorant.layers.convnext
from sonorant.corpus.audit.clip_scoring import Course, JudgedClip, begin, examine, train_aligner
from sonorant.corpus.audit.labels import Said
from sonorant.corpus.cache import code_of, compute_missing, key_of
from sonorant.corpus.manifest import Utterance, corpus_files
from sonorant.corpus.splits import text_key
from sonorant.files import atomic_file
from sonorant.processes import spread, usable_cores

FOLDS = 2
LEARNED_SECONDS = 5400
"""Maximum seconds of speech to train on, so that training takes minutes for any corpus."""
PLANTED_CLIPS = 1500
POOL = 400
LEARNING = (
    sonorant.audio,
    sonorant.corpus.audit.aligner,
    sonorant.corpus.audit.clip_scoring,
    sonorant.corpus.sound,
    sonorant.layers.convnext,
)
"""Modules whose code determines an aligner's weights."""


def train_aligners(
    corpus: Path,
    utterances: Sequence[Utterance],
    texts: Sequence[tuple[Said, ...]],
    labels: int,
    steps: int,
    cache: Path,
) -> list[Path]:
    """Train the aligners missing from `cache`. Return, for each utterance, the weights file of the aligner trained
    without its text. `labels` counts the labels of the whole language, so that editing a text does not change other
    aligners."""
    learning = code_of(*LEARNING)
    order = sorted(range(len(utterances)), key=lambda place: _order(utterances[place]))
    folds = [int(hashlib.sha256(text_key(utterance).encode()).hexdigest(), 16) % FOLDS for utterance in utterances]
    courses: dict[Path, Course] = {}
    for fold in range(FOLDS):
        learned = _sample([place for place in order if folds[place] != fold], utterances)
        name = key_of(learning, steps, fold, labels, [_key(utterances[place], texts[place]) for place in learned])
        courses[cache / "aligners" / f"{name}.pt"] = Course(
            corpus=corpus,
            clips=tuple((utterances[place], texts[place]) for place in learned),
            labels=labels,
            steps=steps,
            fold=fold,
            threads=max(1, usable_cores() // FOLDS),
        )
    missing = [file for file in courses if not file.exists()]

    def keep(place: int, weights: bytes) -> None:
        with atomic_file(missing[place]) as file:
            file.write_bytes(weights)

    spread(
        train_aligner,
        [courses[file] for file in missing],
        label="aligners",
        unit="aligner",
        reads=corpus_files(corpus, utterances),
        keep=keep,
    )
    files = list(courses)
    return [files[fold] for fold in folds]


def examine_clips(
    corpus: Path,
    utterances: Sequence[Utterance],
    texts: Sequence[tuple[Said, ...]],
    readings: Sequence[tuple[tuple[Said, ...], ...]],
    aligners: Sequence[Path],
    cache: Path,
) -> list[dict[str, Any]]:
    """Run `examine` on every clip, and plant faults in some. `readings` contains alternative readings of each text."""
    code = code_of(
        *LEARNING, sonorant.corpus.audit.evidence, sonorant.corpus.audit.planted, sonorant.corpus.audit.readings
    )
    planted = sorted(range(len(utterances)), key=lambda place: _order(utterances[place]))[:PLANTED_CLIPS]
    others = dict(zip(planted, [*planted[1:], planted[0]], strict=True))
    pool = sorted({word for place in planted for word in texts[place]})
    pool = sorted(pool, key=lambda word: hashlib.sha256(repr(word).encode()).hexdigest())[:POOL]
    clips = [
        JudgedClip(
            utterance=utterance,
            words=texts[place],
            aligner=aligners[place],
            other=texts[others[place]] if place in others else None,
            readings=readings[place],
        )
        for place, utterance in enumerate(utterances)
    ]
    keys = [
        key_of(code, _key(clip.utterance, clip.words), clip.aligner.name, clip.other, clip.readings, pool)
        for clip in clips
    ]
    return compute_missing(
        examine,
        clips,
        keys,
        cache,
        label="auditing",
        unit="clip",
        prepare=begin,
        arguments=(corpus, pool),
        reads=(*corpus_files(corpus, utterances), *sorted(set(aligners))),
    )


def clip_key(utterance: Utterance) -> str:
    """Return a hash of the audio of an utterance: its file, time span and conditioning."""
    conditioning = utterance.conditioning and dataclasses.asdict(utterance.conditioning)
    return key_of(utterance.sha256, utterance.start, utterance.end, conditioning)


def _key(utterance: Utterance, words: tuple[Said, ...]) -> str:
    return key_of(clip_key(utterance), words)


def _order(utterance: Utterance) -> str:
    """Return a pseudo-random sort key that is independent of other utterances."""
    return hashlib.sha256(clip_key(utterance).encode()).hexdigest()


def _sample(places: list[int], utterances: Sequence[Utterance]) -> list[int]:
    seconds = np.cumsum([utterances[place].seconds or 0.0 for place in places])
    return places[: int(np.searchsorted(seconds, LEARNED_SECONDS)) + 1]
