"""Compare a clip with its text and with planted faults, in worker processes."""

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sonorant.audio.arrays import Floats
from sonorant.corpus.audit.aligner import AUDIO, Aligner, Lesson, load, mel_of, save, train
from sonorant.corpus.audit.evidence import ClipEvidence, compare
from sonorant.corpus.audit.labels import Said
from sonorant.corpus.audit.planted import plant
from sonorant.corpus.audit.readings import weigh
from sonorant.corpus.manifest import Utterance
from sonorant.corpus.sound import read_sound


@dataclass(frozen=True, kw_only=True)
class JudgedClip:
    utterance: Utterance
    words: tuple[Said, ...]
    aligner: Path
    """Weights file of an aligner not trained on this clip."""
    other: tuple[Said, ...] | None
    """Words of a different clip, to plant as faults; None plants no faults."""
    readings: tuple[tuple[Said, ...], ...]
    """Alternative readings of the text's numbers and abbreviations."""


@dataclass(frozen=True, kw_only=True)
class Course:
    corpus: Path
    clips: tuple[tuple[Utterance, tuple[Said, ...]], ...]
    labels: int
    steps: int
    fold: int
    threads: int


def train_aligner(course: Course) -> bytes:
    """Train an aligner; return the bytes of its weights file."""
    before = torch.get_num_threads()
    torch.set_num_threads(course.threads)
    try:
        aligner = train(_lessons(course), course.labels, course.steps, course.fold, f"aligner {course.fold + 1}")
    finally:
        torch.set_num_threads(before)  # a cluster worker continues with other tasks
    file = io.BytesIO()
    save(aligner, file)
    return file.getvalue()


def _lessons(course: Course) -> list[Lesson]:
    lessons = []
    for utterance, words in course.clips:
        mel, _ = mel_of(_samples(course.corpus, utterance))
        labels = np.array([phone for _, word in words for phone in word], dtype=np.int64)
        if 2 * len(labels) <= len(mel):  # CTC requires a frame per phone
            lessons.append((mel, labels))
    return lessons


_corpus, _pool = Path(), list[Said]()


def begin(corpus: Path, pool: list[Said]) -> None:
    global _corpus, _pool
    _corpus, _pool = corpus, pool
    torch.set_num_threads(1)


def examine(clip: JudgedClip) -> dict[str, Any]:
    """Return a clip's measurements, word positions, planted faults and comparison of readings as JSON."""
    aligner, samples = load(clip.aligner), _samples(_corpus, clip.utterance)
    logs_TL, energy, evidence = _compared(aligner, samples, clip.words)
    planted = []
    if clip.other is not None:
        silence = evidence.figures["seconds_before"], evidence.figures["seconds_after"]
        for fault in plant(clip.words, silence, clip.other, _pool, str(clip.utterance.sha256)):
            left, right = (round(seconds * AUDIO.sample_rate) for seconds in (fault.start, fault.end))
            cut = samples[left : len(samples) - right]
            if left or right:
                if len(cut) < AUDIO.sample_rate // 5:
                    continue
                _, _, changed = _compared(aligner, cut, fault.words)
            else:
                changed = compare(logs_TL, energy, [phones for _, phones in fault.words])
            planted.append([fault.fault, [word for word, _ in fault.words], changed.figures])
    return {
        "figures": evidence.figures,
        "words": [list(word) for word in evidence.words],
        "gaps": [list(gap) for gap in evidence.gaps],
        "planted": planted,
        "reading": weigh(logs_TL, clip.words, clip.readings) if clip.readings else None,
    }


def _compared(aligner: Aligner, samples: Floats, words: tuple[Said, ...]) -> tuple[Floats, Floats, ClipEvidence]:
    mel, energy = mel_of(samples)
    logs_TL = aligner.log_probabilities(mel)
    return logs_TL, energy, compare(logs_TL, energy, [phones for _, phones in words])


def _samples(corpus: Path, utterance: Utterance) -> Floats:
    return read_sound(corpus, utterance, AUDIO.sample_rate)[0]
