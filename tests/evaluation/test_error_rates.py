"""Error rates are the corpus's, and systems are compared on the same sentences only."""

from __future__ import annotations

import pytest

from sonorant.errors import SonorantError
from sonorant.evaluation.error_rates import compare, count_errors, summarize


def test_the_rate_is_the_corpus_s_and_not_the_mean_of_the_utterances() -> None:
    counts = count_errors(["one", "a b c d e f g h i"], ["two", "a b c d e f g h i"])
    assert counts.wer == pytest.approx(100 * 1 / 10)  # the mean of 100 % and 0 % would be 50 %


@pytest.mark.parametrize(
    ("transcript", "word_errors", "character_errors"),
    [("the cat sat", 0, 0), ("the bat sat", 1, 1), ("the sat", 1, 4), ("the cat sat down", 1, 5), ("", 3, 11)],
)
def test_substitutions_deletions_and_insertions_count_one_each(
    transcript: str, word_errors: int, character_errors: int
) -> None:
    counts = count_errors(["the cat sat"], [transcript])
    assert (counts.word_errors.tolist(), counts.words.tolist()) == ([word_errors], [3])
    assert (counts.character_errors.tolist(), counts.characters.tolist()) == ([character_errors], [11])


def test_a_reference_without_words_and_an_empty_corpus_are_refused() -> None:
    with pytest.raises(SonorantError, match="no words"):
        count_errors(["fine", " "], ["fine", "what"])
    with pytest.raises(SonorantError, match="no sentences"):
        count_errors([], [])


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
