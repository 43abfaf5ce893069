from pathlib import Path

import pytest

from sonorant.errors import SonorantError
from sonorant.text import Frontend
from sonorant.text.phrases import LONGEST_PHRASE, Phrase, split_phrases

TRICKY = (
    'He saw Dr. Smith at 5 p.m. on Jan. 3, 1990. She left. "Stop!" he cried. (Really?) Wait... what? '
    "The U.S. Army cost $3.50. Yes. No. Mr. J. R. Smith, e.g. this, and St. John etc. came. It was no. 5. "
    "Then 😀 nothing. 你 He went! 'Why?' 3.14 is vs. 2.71, "
    "i.e. more. “Quoted.” And www.example.com is a site. No.Space here.Or there."
)
PROMPTS = (Path(__file__).parents[2] / "corpora" / "demo").rglob("*.txt")


def spoken(text: str, frontend: Frontend) -> list[tuple[str, ...]]:
    return [tuple(phoneme.symbol for phoneme in phrase.spoken.phonemes) for phrase in split_phrases(text, frontend)]


def whole(text: str, frontend: Frontend) -> list[tuple[str, ...]]:
    return [tuple(phoneme.symbol for phoneme in sentence.phonemes) for sentence in frontend.sentences(text)]


def test_pieces_are_the_sentences_of_the_whole_paragraph(frontend: Frontend) -> None:
    prompts = " ".join(line.strip() for file in PROMPTS for line in file.read_text(encoding="utf-8").splitlines()[:60])
    assert len(prompts) > 1_000
    for text in (TRICKY, prompts):
        assert spoken(text, frontend) == whole(text, frontend)


def test_a_paragraph_ends_a_sentence_and_a_line_does_not(frontend: Frontend) -> None:
    assert len(spoken("Chapter One\n \nIt was a dark\nand stormy night.\r\n\r\nThe end", frontend)) == 3


def test_a_line_ends_a_sentence_if_asked(frontend: Frontend) -> None:
    text = "Shopping\n- Milk\n - two eggs\nDr.\nSmith. Yes\n\nNo"
    for given in (text, list(text)):
        phrases = [phrase for phrase in split_phrases(given, frontend, lines=True) if isinstance(phrase, Phrase)]
        words = ["Shopping", "Milk", "two eggs", "Doctor", "Smith.", "Yes", "No"]
        assert [phrase.spoken.text for phrase in phrases] == words
        assert [phrase.ends_paragraph for phrase in phrases] == [word == "Yes" for word in words]


def test_a_long_sentence_is_cut_where_a_phrase_ends(frontend: Frontend) -> None:
    phrase = "and then Dr. Smith paid $1,234.50 for it"
    phrases = list(split_phrases(", ".join([phrase] * 40) + ".", frontend))
    assert [phrase.goes_on for phrase in phrases] == [True] * (len(phrases) - 1) + [False]
    assert all(LONGEST_PHRASE // 4 < phrase.characters <= LONGEST_PHRASE for phrase in phrases[:-1])
    words = [phrase.spoken.text for phrase in phrases]
    assert sum(text.count(frontend.speak(phrase).text) for text in words) == 40


def test_unspeakable_text_is_told_and_silent_text_passes(frontend: Frontend) -> None:
    phrases = list(split_phrases("* * *\n\n😀\n\nHello.", frontend))
    assert [bool(phrase.spoken.phonemes) for phrase in phrases] == [False, False, True]
    assert [phrase.spoken.unknown for phrase in phrases] == [(), ("😀",), ()]


def test_a_word_without_an_end_is_refused(frontend: Frontend) -> None:
    with pytest.raises(SonorantError, match="a word of more than 300 characters"):
        list(split_phrases("x" * 401, frontend))
    assert len(spoken("https://example.org/" + "path/" * 100, frontend)) > 1
