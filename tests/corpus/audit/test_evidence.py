import numpy as np
import pytest

from sonorant.corpus.audit.evidence import ClipEvidence, compare
from sonorant.corpus.audit.planted import plant

WORDS = [(1, 2, 3), (4, 5), (6, 1, 4), (2, 6)]
FRAMES = 4  # per phone


def frames_of(words: list[tuple[int, ...]], silence: int = 6) -> tuple[np.ndarray, np.ndarray]:
    """Log-probabilities of a nearly certain aligner, and levels, for silence, the words, silence."""
    labels = [0] * silence + [phone for word in words for phone in word for _ in range(FRAMES)] + [0] * silence
    noise = np.random.default_rng(0).normal(size=(len(labels), 7))
    noise[np.arange(len(labels)), labels] += 8.0
    logs = noise - np.log(np.exp(noise).sum(axis=1, keepdims=True))
    level = np.repeat(np.where(np.isin(labels, (0, 5)), -4.0, 1.0), 2)  # phone 5 is as quiet as silence
    return logs.astype(np.float32), level.astype(np.float32)


def beside(spoken: list[tuple[int, ...]], text: list[tuple[int, ...]], silence: int = 6) -> ClipEvidence:
    return compare(*frames_of(spoken, silence), text)


def test_a_text_that_is_said_lacks_little_and_its_words_are_found() -> None:
    found = beside(WORDS, WORDS)
    assert found.figures["lacking_a_phone"] < 1.0
    edges = np.cumsum([6, *(len(word) * FRAMES for word in WORDS)]) * 0.02
    for (start, end, lacks), left, right in zip(found.words, edges, edges[1:], strict=False):
        assert (start, end) == pytest.approx((left, right), abs=0.03) and lacks < 2.0


@pytest.mark.parametrize(
    ("spoken", "text", "figure"),
    [
        (WORDS[1:], WORDS, "without_first_1"),
        (WORDS[:-1], WORDS, "without_last_1"),
        (WORDS[2:], WORDS, "without_first_2"),
        ([WORDS[0], *WORDS[2:]], WORDS, "without_inner"),
        (WORDS, WORDS[1:], "filled_start"),
        (WORDS, WORDS[:-1], "filled_end"),
        (WORDS, [WORDS[0], *WORDS[2:]], "filled_inside"),
        (WORDS, [WORDS[0], (5, 3), *WORDS[2:]], "filled_instead"),
        ([(3,), *WORDS[1:]], WORDS, "cut_start"),
        ([*WORDS[:-1], (2,)], WORDS, "cut_end"),
        (WORDS, WORDS[::-1], "lacking"),
    ],
)
def test_each_fault_moves_its_figure(spoken: list[tuple[int, ...]], text: list[tuple[int, ...]], figure: str) -> None:
    usual, found = beside(text, text).figures[figure], beside(spoken, text).figures[figure]
    assert found > usual + 5


def test_speech_at_the_edge_is_seen() -> None:
    cut, whole = (beside(WORDS, WORDS, silence).figures for silence in (0, 6))
    assert cut["level_at_start"] > whole["level_at_start"] + 0.5
    assert cut["seconds_before"] == 0 < whole["seconds_before"]
    assert cut["blank_at_end"] < 0.5 < whole["blank_at_end"]


def test_sound_that_no_word_owns_is_placed() -> None:
    found = beside([WORDS[0], (5, 3, 5), *WORDS[1:]], WORDS)
    start, end, gain = found.gaps[1]
    assert gain > 10 and (start, end) == pytest.approx(((6 + 12) * 0.02, (6 + 24) * 0.02), abs=0.05)


def test_a_text_of_more_phones_than_frames_and_of_one_word_have_finite_figures() -> None:
    for spoken, text in (([(1,)], WORDS * 9), (WORDS, [(1,)]), ([(2, 2)], [(2, 2)])):
        figures = beside(spoken, text).figures
        assert all(np.isfinite(value) for value in figures.values())
        assert figures.keys() == beside(WORDS, WORDS).figures.keys()


def test_planted_faults_are_what_they_are_called_and_depend_on_the_seed_alone() -> None:
    text = [(f"w{number}", word) for number, word in enumerate(WORDS)]
    pool, other = [("new", (5,))], [("other", (1, 2))]
    faults = {found.fault.name: found for found in plant(text, (0.1, 0.2), other, pool, "seed")}
    assert len(faults) == 10
    assert faults["OTHER_TEXT"].words == tuple(other)
    assert faults["MISSING_AT_START"].words == (pool[0], *text) and faults["ADDED_AT_END"].words == tuple(text[:-1])
    assert faults["CUT_AT_START"].start > 0.1 and faults["CUT_AT_END"].end > 0.2
    assert list(plant(text, (0.1, 0.2), other, pool, "seed")) == list(faults.values())
