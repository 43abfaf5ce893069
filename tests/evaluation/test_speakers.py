from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sonorant.evaluation.error_rates import ErrorCounts
from sonorant.evaluation.likeness import Pair, Weighted
from sonorant.evaluation.naturalness import JudgedSound
from sonorant.evaluation.raters import NOBODY, confuse
from sonorant.evaluation.recordings import RECORDINGS, VOCODER
from sonorant.evaluation.renderings import Renderings, Spoken
from sonorant.evaluation.speakers import by_speaker
from sonorant.evaluation.spectral_distances import Distance
from sonorant.evaluation.words import JudgedWords
from sonorant.training.intervals import LEAST

PEOPLE = ("anna", "ben")
JUDGED = st.lists(st.tuples(st.sampled_from(PEOPLE), st.integers(0, 9), st.integers(1, 9)), min_size=1)
NOT_INSTALLED = "not run: not installed"
ALIKE = Distance(
    pairs=9, distortion=9.0, log_mel=9.0, voiced_pairs=9, squared_cents=9.0, voicing_errors=0, seconds=1.0,
    reference_seconds=1.0,
)  # fmt: skip


def sound_of(speakers: list[str], tempo: list[float], rated: int | None = None, embeddings: Any = None) -> JudgedSound:
    """Sentences of known tempo; the first `rated` have DNSMOS 3 (recording) or 2."""
    pairs = [Pair(ALIKE, {"tempo_ratio": Weighted(each)}) for each in tempo]
    scores = {RECORDINGS: 3.0, VOCODER: 2.0, "fp32": 2.0}
    return JudgedSound(
        speakers=tuple(speakers),
        pairs={VOCODER: pairs, "fp32": pairs},
        ratings={kind: np.full((rated, 3), score) if rated else NOT_INSTALLED for kind, score in scores.items()},
        embeddings=embeddings or NOT_INSTALLED,
    )


def words_of(wrong: list[int], words: list[int]) -> JudgedWords:
    counts = ErrorCounts(*(np.array(column) for column in (wrong, words, wrong, words)))
    kinds = dict.fromkeys((RECORDINGS, VOCODER, "fp32"), counts)
    return JudgedWords(transcripts={}, counts=kinds, figures={}, tested={})


def rendered(count: int, reasons: tuple[str, ...] = ()) -> Renderings:
    went = {"fp32": tuple(Spoken(np.zeros(1, np.float32), None, reason, 1) for reason in reasons)} if reasons else {}
    return Renderings(ids=("",) * count, tokens=(), sounds={}, decoded=went, unspoken={}, rate=1)


@given(JUDGED)
def test_the_speakers_errors_are_all_errors(judged: list[tuple[str, int, int]]) -> None:
    speakers, wrong, words = (list(column) for column in zip(*judged, strict=True))
    sound = sound_of(speakers, [1.0] * len(judged))
    found = by_speaker(words_of(wrong, words), sound, rendered(len(judged)), [*PEOPLE, "eve"])
    rows = {row["speaker"]: row for row in found}
    assert list(rows) == ["anna", "ben", "eve"]
    assert rows["eve"] == {"speaker": "eve", "sentences": 0} | dict.fromkeys(
        ("intelligibility", "naturalness", "decoding")
    )
    assert sum(row["sentences"] for row in rows.values()) == len(judged)
    heard = [row["intelligibility"]["fp32"] for row in rows.values() if row["intelligibility"]]
    assert sum(each["wer"] * each["words"] / 100 for each in heard) == pytest.approx(sum(wrong), abs=1e-2 * len(judged))


def test_each_speaker_has_the_figures_of_the_own_sentences() -> None:
    speakers, reasons = ["anna", "ben"] * 30, ("well", "budget") * 30
    found = by_speaker(
        words_of([0, 4] * 30, [4] * 60), sound_of(speakers, [1.0, 2.0] * 30), rendered(60, reasons), PEOPLE
    )
    for row, wer, tempo, runaways in zip(found, (0.0, 100.0), (1.0, 2.0), (0, 30), strict=True):
        assert row["intelligibility"]["fp32"]["wer"] == wer and row["sentences"] == 30
        assert row["naturalness"]["fp32"]["tempo_ratio"] == tempo and row["naturalness"]["fp32"]["utterances"] == 30
        assert row["decoding"]["fp32"]["runaways"] == runaways
        assert row["intelligibility"]["fp32"]["above_recordings"]["wer_ci95"] == [0.0, 0.0]


def test_nobody_has_a_rate_where_nobody_listened() -> None:
    unheard = JudgedWords(transcripts={}, counts={}, figures={"fp32": "not run: why"}, tested={})
    rows = by_speaker(unheard, sound_of(["anna"], [1.0]), rendered(1), PEOPLE)
    assert [row["intelligibility"] for row in rows] == [{"fp32": "not run: why"}, None]


def test_a_speaker_of_few_rated_sentences_has_no_opinion_and_says_what_to_raise() -> None:
    speakers = ["anna"] * LEAST + ["ben"] * LEAST
    sound = sound_of(speakers, [1.0] * len(speakers), rated=LEAST + 3)
    assert sound.figures()["fp32"]["dnsmos"]["utterances"] == LEAST + 3
    assert sound.figures("anna")["fp32"]["dnsmos_below_recordings"] == 1.0
    why = "not run: only 3 of these sentences were rated; increase evaluate.mos_sentences"
    assert sound.figures("ben")["fp32"]["dnsmos_below_recordings"] == why


def towards(*angles: float) -> np.ndarray:
    """Unit-length embeddings."""
    return np.array([[np.cos(angle), np.sin(angle)] for angle in np.radians(angles)])


def test_a_sentence_is_recognised_as_the_speaker_it_is_most_like_and_the_matrix_names_them() -> None:
    recordings, speakers = towards(0, 5, 10, 80, 85, 90), ["anna"] * 3 + ["ben"] * 3
    alike = confuse(towards(0, 90, 88, 2), towards(0, 90, 88, 2), ["anna", "anna", "ben", "ben"])
    assert [row["recognised"] for row in alike] == [0.0, 0.0], "a sentence is not compared with its own recording"
    right = confuse(recordings, recordings, speakers)
    assert not isinstance(right, str)
    assert [row["recognised"] for row in right] == [1.0, 1.0] and right[0]["as"] == {"anna": 3, "ben": 0}
    spoken = towards(1, 2, 3, 20, 70, 0)
    spoken[-1] = 0.0
    [anna, ben] = confuse(spoken, recordings, speakers)
    assert anna == right[0]
    assert ben["as"] == {"anna": 1, "ben": 1, NOBODY: 1} and ben["recognised"] == pytest.approx(1 / 3, abs=1e-4)
    low, high = ben["recognised_ci95"]
    assert 0.05 < low < 1 / 3 < high < 0.8


def test_a_speaker_of_one_sentence_is_left_out_and_two_are_needed() -> None:
    recordings = towards(0, 1, 80, 81, 40)
    rows = confuse(recordings, recordings, ["anna", "anna", "ben", "ben", "eve"])
    assert [row["speaker"] for row in rows] == ["anna", "ben"] and all(row["recognised"] == 1.0 for row in rows)
    assert (
        confuse(recordings, recordings, ["anna"] * 5) == "not run: fewer than two speakers have two evaluated sentences"
    )


def test_confusion_is_by_kind() -> None:
    embedded = dict.fromkeys((RECORDINGS, VOCODER, "fp32"), towards(0, 1, 90, 91))
    found = sound_of(["anna", "anna", "ben", "ben"], [1.0] * 4, embeddings=embedded).confusion()
    assert [row["recognised"] for rows in found.values() for row in rows] == [1.0] * 6
