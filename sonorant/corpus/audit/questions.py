"""Which of its readings does an utterance say? Asked where its text holds a number or an abbreviation.

The aligner weighs each other reading against the frontend's; where it is not certain, a recogniser may have heard one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TypedDict

import numpy as np
import torch
from rapidfuzz.distance import Levenshtein

from sonorant.corpus.audit.aligner import AUDIO, Aligner, load, mel_of
from sonorant.corpus.audit.findings import Audited, AuditedWord, Fault, Reading
from sonorant.corpus.audit.hearing import words_of
from sonorant.corpus.audit.planted import Said
from sonorant.corpus.audit.readings import forms, other_texts
from sonorant.corpus.audit.search import prefix_scores
from sonorant.corpus.audit.texts import Labels
from sonorant.corpus.manifest import Utterance
from sonorant.corpus.sound import read_sound

CERTAIN = 10.0
"""Nats above the frontend's reading from which another one may be called certain."""
SHARE = 0.2
"""Share of what the frontend's reading lacks that it must explain for that: a wrong text fits no reading."""


@dataclass(frozen=True, kw_only=True)
class Question:
    """Which of its readings does an utterance say?"""

    utterance: Utterance
    words: tuple[Said, ...]
    """As the frontend reads the text."""
    others: tuple[tuple[Said, ...], ...]
    """As others may read it; none for a form of which no other reading is known."""


class Answer(TypedDict):
    """What an aligner says to a question, as plain JSON."""

    lacking: float
    """Nats that the best path of the frontend's reading lacks to the likeliest path of any phones."""
    gains: list[float]
    """Nats by which the best path of each other reading scores above that of the frontend's."""


def question_of(utterance: Utterance, words: Sequence[Said], labels: Labels) -> Question | None:
    """The readings of an utterance's text; None if it holds no number and no abbreviation."""
    spoken, language, others = [word for word, _ in words], utterance.language, dict[tuple[Said, ...], None]()
    if spoken != words_of(utterance.spoken or "") or not forms(utterance.text, spoken):
        return None
    for text in other_texts(utterance.text, language):
        others[labels.of_text(text, labels.spoken(text, language), language)] = None
    others.pop(tuple(words), None)
    return Question(utterance=utterance, words=tuple(words), others=tuple(others))


def with_reading(row: Audited, question: Question, answer: Answer | None, doubt: float) -> Audited:
    """The row with `Fault.READING` if that is the likely fault.

    `answer`: of `weigh`, None where no aligner ran; `doubt`: score from which a row is doubtful. A row whose other
    reading is certain becomes doubtful by that alone.
    """
    if row.fault == Fault.OTHER_TEXT:
        return row
    chosen = choose(question, answer, [words_of(text) for text in row.heard.values()])
    if chosen is not None and (chosen[1] or row.score >= doubt):
        reading = heard_reading(question, chosen[0])
    elif row.score < doubt or not (found := doubtful_reading(question.utterance.text, row.words)):
        return row
    else:
        reading = found
    return replace(row, score=max(row.score, doubt), fault=Fault.READING, reading=reading)


def choose(question: Question, answer: Answer | None, heard: Sequence[Sequence[str]]) -> tuple[int, bool] | None:
    """The place of the other reading that is likelier than the frontend's, and whether that is certain; None if none
    is. `heard`: words that each recogniser understood."""
    gains = answer["gains"] if answer else []
    if not question.others:
        return None
    if answer and max(gains) > max(CERTAIN, SHARE * answer["lacking"]):
        return int(np.argmax(gains)), True
    readings = [[word for word, _ in words] for words in (question.words, *question.others)]
    for understood in heard:
        own, *others = (Levenshtein.distance(reading, understood) for reading in readings)
        nearest = int(np.argmin(others))
        if others[nearest] < own and (not gains or gains[nearest] > 0):
            return nearest, False
    return None


def heard_reading(question: Question, other: int) -> Reading:
    """The number or abbreviation that this other reading has other words for."""
    written = question.utterance.text
    own, heard = ([word for word, _ in words] for words in (question.words, question.others[other]))
    expected = {form.written: own[form.first : form.end] for form in forms(written, own)}
    for form in forms(written, heard):
        usual, words = expected.get(form.written, words_of(form.written)), heard[form.first : form.end]
        if words != usual:
            return Reading(written=form.written, expected=" ".join(usual), heard=" ".join(words))
    return Reading(written=written, expected=" ".join(own), heard=" ".join(heard))


def doubtful_reading(written: str, words: Sequence[AuditedWord]) -> Reading | None:
    """The number or abbreviation that the doubtful words say; None if there are none, or they say something else
    too."""
    spoken = [word.text for word in words]
    doubtful = [place for place, word in enumerate(words) if word.doubtful]
    found = [form for form in forms(written, spoken) if any(form.first <= place < form.end for place in doubtful)]
    if not doubtful or not all(any(form.first <= place < form.end for form in found) for place in doubtful):
        return None
    first = found[0]
    return Reading(written=first.written, expected=" ".join(spoken[first.first : first.end]), heard=None)


_corpus = Path()


def begin_weighing(corpus: Path) -> None:
    """Prepare this process."""
    global _corpus
    _corpus = corpus
    torch.set_num_threads(1)


def weigh(asked: tuple[Question, Path]) -> Answer:
    """Set every reading beside the sound, by an aligner, of which the weights are given, that did not learn it."""
    question, aligner = asked
    mel, _ = mel_of(read_sound(_corpus, question.utterance, AUDIO.sample_rate)[0])
    emission_TL = _aligner(aligner).log_probabilities(mel).astype(np.float64)
    readings = [[phone for _, word in words for phone in word] for words in (question.words, *question.others)]
    own, *others = (prefix_scores(emission_TL, np.array(phones, dtype=np.int64))[-1, -1] for phones in readings)
    lacking = float(emission_TL.max(axis=1).sum() - own)
    return {"lacking": lacking, "gains": [float(other - own) for other in others]}


@lru_cache(maxsize=4)
def _aligner(path: Path) -> Aligner:
    return load(path)
