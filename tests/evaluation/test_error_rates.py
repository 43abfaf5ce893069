import pytest
from hypothesis import given
from hypothesis import strategies as st

from sonorant.errors import SonorantError
from sonorant.evaluation.error_rates import Normalizer, compare, count_errors
from sonorant.text import load_frontend

normalize = Normalizer("en-us")


def test_the_rate_is_the_corpus_s_and_not_the_mean_of_the_utterances() -> None:
    counts = count_errors(["one", "a b c d e f g h i"], ["two", "a b c d e f g h i"])
    assert counts.wer == pytest.approx(100 * 1 / 10)  # the mean of 100 % and 0 % would be 50 %


@pytest.mark.parametrize(
    ("transcript", "words", "characters"),
    [("the cat sat", 0, 0), ("the bat sat", 1, 1), ("the sat", 1, 4), ("the cat sat down", 1, 5), ("", 3, 11)],
)
def test_substitutions_deletions_and_insertions_count_one_each(transcript: str, words: int, characters: int) -> None:
    counts = count_errors(["the cat sat"], [transcript])
    assert (counts.word_errors.tolist(), counts.words.tolist()) == ([words], [3])
    assert (counts.character_errors.tolist(), counts.characters.tolist()) == ([characters], [11])


def test_a_reference_without_words_and_an_empty_corpus_are_refused() -> None:
    with pytest.raises(SonorantError, match="no words"):
        count_errors(["fine", " "], ["fine", "what"])
    with pytest.raises(SonorantError, match="no sentences"):
        count_errors([], [])


def test_two_systems_are_compared_only_on_the_same_sentences() -> None:
    system, baseline = count_errors(["a b", "c d"], ["a x", "c d"]), count_errors(["a b", "c d"], ["a b", "c d"])
    assert compare(system, baseline)["wer"] == 25.0
    assert compare(baseline, system)["wer"] == -25.0
    with pytest.raises(ValueError, match="same sentences"):
        compare(system, count_errors(["a b", "c d e"], ["a b", "c d e"]))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Well-known, isn't it?", "well known isn't it"),
        ("He said “don’t!”", "he said don't"),
        ("one,two/three—four", "one two three four"),
        ("'Tis the dogs' bone", "tis the dogs bone"),
        ("  many\t spaces \n", "many spaces"),
        ("snake_case", "snake case"),
        ("...", ""),
        ("Größe ÉTÉ", "größe été"),
    ],
)
def test_words_and_nothing_else_are_left(text: str, words: str) -> None:
    assert normalize(text) == words


@pytest.mark.parametrize("text", ["I saw 50 birds in 1984.", "It costs $5.", "The 2nd of 3.5"])
def test_digits_a_recogniser_writes_equal_the_words_of_the_manifest(text: str) -> None:
    spoken = load_frontend("gruut", "en-us").speak(text).text
    assert normalize(text) == normalize(spoken)
    assert not any(character.isdigit() for character in normalize(text))


@given(st.lists(st.text(alphabet="abcxyz", min_size=1), min_size=1), st.sampled_from([" ", ", ", "-", "!", " — "]))
def test_no_separator_joins_or_loses_words(words: list[str], separator: str) -> None:
    assert normalize(separator.join(words)).split() == words


@given(st.text(alphabet=st.characters(exclude_categories=["Cs", "Nd", "Nl", "No"])))
def test_normalising_twice_changes_nothing(text: str) -> None:
    assert normalize(normalize(text)) == normalize(text)
