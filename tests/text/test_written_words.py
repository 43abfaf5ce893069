import re
from itertools import pairwise

import pytest

from sonorant.speech.streaming import in_original
from sonorant.text import Frontend
from sonorant.text.frontend import PAUSES
from sonorant.text.markup import MarkedText
from sonorant.text.phrases import Phrase, split_phrases

TEXT = """  "Well-known," he said—and left at 3:30 p.m. with $5 million (or 5 km & 7%).
St. John's 1984 was read in 2 days.

Hello 你 there. and/or “quoted” don't – now. Mr. Smith paid in the 1990s ☺; what else? """
SPOKEN = {
    "Well-known": "well known", "$5 million": "five million dollars", "5 km": "five kilometers",
    "7%": "seven percent", "St": "Saint", "and/or": "and or", "Mr": "Mister",
    "1990s": "nineteen nineties", "Smith": "Smith", "&": "and",
}  # fmt: skip
"""Spoken form of each written word of `TEXT`."""


def phrases(text: str | list[str], frontend: Frontend) -> list[Phrase]:
    return list(split_phrases(text, frontend, words=True))


def test_every_spoken_word_belongs_to_one_written_word_and_their_order_is_kept(frontend: Frontend) -> None:
    for phrase in phrases(TEXT, frontend):
        owned = [range(*word.phonemes) for word in phrase.words]
        places = [place for own in owned for place in own]
        spoken = {place for place, phoneme in enumerate(phrase.spoken.phonemes) if phoneme.symbol not in PAUSES}
        assert places == sorted(set(places)) and spoken <= set(places)
        assert all(len(own) and phrase.spoken.phonemes[own[0]].word_start for own in owned)


def test_a_word_names_itself_in_the_text_and_its_marks_are_kept_beside_it(frontend: Frontend) -> None:
    words = [word for phrase in phrases(TEXT, frontend) for word in phrase.words]
    assert all(TEXT[word.first : word.last] == word.text for word in words)
    assert all(one.last <= other.first for one, other in pairwise(words))
    assert re.sub(r"\s", "", "".join(word.written for word in words)) == re.sub(r"\s", "", TEXT)


@pytest.mark.parametrize(("written", "read"), SPOKEN.items())
def test_a_word_that_is_read_as_several_has_the_phonemes_of_them_all(
    written: str, read: str, frontend: Frontend
) -> None:
    [(word, phrase)] = [(w, phrase) for phrase in phrases(TEXT, frontend) for w in phrase.words if w.text == written]
    expected = [phoneme.symbol for phoneme in frontend.speak(read).phonemes if phoneme.symbol not in PAUSES]
    got = [phoneme.symbol for phoneme in phrase.spoken.phonemes[slice(*word.phonemes)]]
    assert got == expected


def test_what_is_cut_and_what_is_silent(frontend: Frontend) -> None:
    long = "and the rain went on " * 60
    cut = phrases(long, frontend)
    assert len(cut) > 1 and cut[0].goes_on
    assert [word.text for phrase in cut for word in phrase.words] == long.split()
    assert [phrase.words for phrase in phrases("... !", frontend)] == [()]
    assert [word.written for word in phrases("– ... Yes –", frontend)[0].words] == ["– ... Yes –"]


def test_control_characters_are_left_out(frontend: Frontend) -> None:
    [phrase] = phrases("a \x1b[31mred\x00 do\x00or", frontend)
    assert "".join(word.written for word in phrase.words) == "a[31mreddoor"
    assert phrase.spoken.unknown == ("\x1b", "\x00")


MARKED = '<speak>Go to the <sub alias="World Wide Web">WWW</sub>, <phoneme ph="nˈaʊ">soon</phoneme>.</speak>'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (MARKED, {"Go": "Go", "World Wide Web": '<sub alias="World Wide Web">WWW</sub>'}),
        ("Call [[ʃ ɪ v ˈɔ n]], now.", {"Call": "Call", "ʃ ɪ v ˈɔ n": "[[ʃ ɪ v ˈɔ n]]", "now": "now"}),
    ],
)
def test_words_of_a_marked_text_stand_in_the_original(text: str, words: dict[str, str], frontend: Frontend) -> None:
    marked = MarkedText([text], frontend)
    placed = [
        word
        for phrase in split_phrases(marked, frontend, marked.given, words=True)
        for word in in_original(phrase.words, marked)
    ]
    found = {word.text: text[word.first : word.last] for word in placed}
    assert {name: found[name] for name in words} == words
    assert all(one.last <= other.first for one, other in pairwise(placed))
