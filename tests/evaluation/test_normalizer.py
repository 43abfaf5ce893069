"""What sounds alike is written alike before words are counted, and words never grow together."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sonorant.evaluation.error_rates import Normalizer
from sonorant.text import load_frontend

normalize = Normalizer("en-us")


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
