"""Error rates are the corpus's, intervals cover what they should, and a paired difference forgets what both systems
share."""

from __future__ import annotations

import numpy as np
import pytest

from sonorant.errors import SonorantError
from sonorant.evaluation.error_rates import bootstrap_interval, compare, count_errors, paired_interval, summarize


def test_the_rate_is_the_corpus_s_and_not_the_mean_of_the_utterances() -> None:
    counts = count_errors(["one", "a b c d e f g h i"], ["two", "a b c d e f g h i"])
    assert counts.wer == pytest.approx(100 * 1 / 10)  # the mean of 100 % and 0 % would be 50 %


@pytest.mark.parametrize(
    ("transcript", "word_errors"),
    [("the cat sat", 0), ("the bat sat", 1), ("the sat", 1), ("the cat sat down", 1), ("", 3)],
)
def test_substitutions_deletions_and_insertions_count_one_each(transcript: str, word_errors: int) -> None:
    counts = count_errors(["the cat sat"], [transcript])
    assert counts.word_errors.tolist() == [word_errors]
    assert counts.words.tolist() == [3]
    assert counts.characters.tolist() == [len("the cat sat")]


def test_character_errors_are_finer_than_word_errors() -> None:
    counts = count_errors(["the cat sat"], ["the bat sat"])
    assert counts.character_errors.tolist() == [1]


def test_a_reference_without_words_and_an_empty_corpus_are_refused() -> None:
    with pytest.raises(SonorantError, match="no words"):
        count_errors(["fine", " "], ["fine", "what"])
    with pytest.raises(SonorantError, match="no sentences"):
        count_errors([], [])


def test_the_interval_covers_the_true_rate_as_often_as_it_says() -> None:
    """100 corpora of 160 sentences whose true word error rate is 20 %: about 95 intervals hold it."""
    random = np.random.default_rng(0)
    held = 0
    for _ in range(100):
        words = random.integers(4, 15, size=160)
        low, high = bootstrap_interval(random.binomial(words, 0.2), words, 500)
        held += low <= 20.0 <= high
    assert 88 <= held <= 99


def test_an_interval_without_spread_is_a_point_and_more_sentences_narrow_it() -> None:
    even = np.full(50, 10)
    assert bootstrap_interval(np.full(50, 1), even, 200) == (10.0, 10.0)
    errors = np.array([0, 2] * 25)
    few, many = bootstrap_interval(errors, even, 1000), bootstrap_interval(np.tile(errors, 16), np.tile(even, 16), 1000)
    assert (few[1] - few[0]) / (many[1] - many[0]) == pytest.approx(4, rel=0.25)
    assert bootstrap_interval(errors, even, 1000) == few


def test_a_paired_difference_is_blind_to_what_is_hard_for_both() -> None:
    random = np.random.default_rng(0)
    words = np.full(160, 10)
    hard = random.integers(0, 8, size=160)
    worse = hard + (np.arange(160) % 2)  # half an error a sentence more: 5 points
    low, high = paired_interval(worse, hard, words, 1000)
    assert low <= 5.0 <= high
    assert high - low < 2
    alone = bootstrap_interval(worse, words, 1000)
    assert alone[1] - alone[0] > 2 * (high - low)


def test_two_systems_are_compared_only_on_the_same_sentences() -> None:
    system, baseline = count_errors(["a b", "c d"], ["a x", "c d"]), count_errors(["a b", "c d"], ["a b", "c d"])
    assert compare(system, baseline, 100)["wer"] == 25.0
    assert compare(baseline, system, 100)["wer"] == -25.0
    with pytest.raises(ValueError, match="same sentences"):
        compare(system, count_errors(["a b", "c d e"], ["a b", "c d e"]), 100)


def test_the_summary_holds_the_rate_between_its_bounds() -> None:
    summary = summarize(count_errors(["a b c", "d e f", "g h i"], ["a b x", "d e f", "x x x"]), 200)
    assert summary["wer_ci95"][0] <= summary["wer"] <= summary["wer_ci95"][1]
    assert (summary["words"], summary["utterances"]) == (9, 3)
