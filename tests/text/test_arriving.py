import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from threading import Timer

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sonorant.errors import SonorantError
from sonorant.text import Frontend, load_frontend
from sonorant.text.arriving import ArrivingText, Fragment, Lull
from sonorant.text.markup import MarkedText
from sonorant.text.phrases import Phrase, split_phrases
from sonorant.text.user_lexicon import Lexicon
from tests.support.waiting import PATIENCE

PLAIN = (
    "Hello there. Dr. Smith St. James No. 5 no. five vol. Two etc. Etc. and U.S. The Army U.S.A. it's 3. 5 $3. 50 p.m. "
    "a.m. Jan. 5th e.g. i.e. said “Really?” (Why?) he Wait... … What?! Inc. Ltd. it A. B. Ph.D. approx. 4 in. wide ft. "
    "tall, J. K. she? I! Mr. vs. Yes: no; 1.5 Ave. Sept. Gen. 'Go!' Go fig. seven 6 p. ]. [ naïve 你 Oh—no."
)
WORDS = (*PLAIN.split(), "[[ʃ ɪ]]", "[[pause 0.5]]", "\n", "\n\n", " \n \n\n", "wonderful " * 45)


def split(fragments: Iterable[Fragment], frontend: Frontend) -> Iterator[Phrase | Lull]:
    marked = MarkedText(fragments, frontend)
    return split_phrases(marked, frontend, marked.given, words=True)


def spoken(fragments: Iterable[Fragment], frontend: Frontend) -> list[tuple[object, ...]]:
    """All that a voice receives for each phrase; for silent phrases only the pauses."""
    found = [phrase for phrase in split(fragments, frontend) if isinstance(phrase, Phrase)]
    return [
        (phrase.spoken, phrase.words, phrase.goes_on, phrase.pause) for phrase in found if phrase.spoken.phonemes
    ] + [phrase.pause for phrase in found if phrase.pause]


def cut(text: str, places: list[int]) -> list[str]:
    edges = [0, *sorted({place % (len(text) + 1) for place in places}), len(text)]
    return [text[start:end] for start, end in pairwise(edges)]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(WORDS), min_size=1, max_size=14), st.lists(st.integers(0, 200), max_size=12))
@example(["Hello", "there.", "She", "went."] * 3, [])
def test_phrases_are_those_of_the_whole_text_however_it_is_cut(words: list[str], places: list[int]) -> None:
    frontend = load_frontend("gruut", "en-us")
    text = " ".join(words)
    whole = spoken([text], frontend)
    for fragments in (list(text), cut(text, places), ["", *text, ""], [part for c in text for part in (c, Lull.SHORT)]):
        assert spoken(fragments, frontend) == whole


@pytest.mark.parametrize(
    ("settled", "letter"),
    [
        ("Hello there. ", "S"),
        ("Hello there. ", "s"),
        ("Who is it?” ", "H"),
        ("Nobody came\n", "\n"),
        ("It cost too much, etc. ", "S"),
    ],
)
def test_the_first_letter_of_the_next_word_settles_most_ends(frontend: Frontend, settled: str, letter: str) -> None:
    read: list[str] = []

    def typed() -> Iterator[str]:
        for character in f"{settled}{letter}omething goes on. ":
            read.append(character)
            yield character

    first = next(split(typed(), frontend))
    assert isinstance(first, Phrase) and first.spoken.phonemes
    assert "".join(read) == settled + letter


@pytest.mark.parametrize(
    "text",
    [
        "Call Dr. S", "It costs $3. F", "It costs 3.", "The U.S. A", "See fig. s", "See no. f", "J. K", "Hello there",
        "Hello there.", "Hello there. ", "Hello there. 5", "Hello there. (", "Call [[ʃ ɪ", "<speak>Hello there. So",
    ],
)  # fmt: skip
def test_what_may_go_on_waits(frontend: Frontend, text: str) -> None:
    assert next(split([*text, Lull.SHORT], frontend)) is Lull.SHORT


def test_a_lexicon_with_a_word_across_a_full_stop_is_waited_for() -> None:
    lexicon = Lexicon("en-us", {"there. Siobhan": "ʃ ɪ v ˈɔ n"})
    own = load_frontend("gruut", "en-us", lexicon=lexicon)
    text = "Hello there. Siobhan came. Then what?"
    assert spoken(list(text), own) == spoken([text], own)
    assert len(spoken([text], own)) == 2


@pytest.mark.parametrize(
    ("text", "over", "kept"),
    [
        ("Hello there.", "Hello there", "more"),
        ("Hello there. I", "Hello there", "I more"),
        ("Who? Me?” ", "Who Me", "more"),
        ("Then he said:\n", "Then he said", "more"),
        ("Then he said", "", "Then he said more"),
        ("Call Dr.", "", "Call Doctor more"),
        ("Wait [[pause 1]] a", "", "Wait a more"),
    ],
)
def test_a_long_lull_ends_what_ends_like_a_sentence(frontend: Frontend, text: str, over: str, kept: str) -> None:
    found = list(split([*text, Lull.LONG, Lull.LONG, " more"], frontend))
    lull = found.index(Lull.LONG)
    assert found.count(Lull.LONG) == 2
    for part, words in ((found[:lull], over), (found[lull:], kept)):
        texts = [phrase.spoken.text for phrase in part if isinstance(phrase, Phrase)]
        assert re.findall(r"\w+", " ".join(texts)) == words.split()


def test_a_written_text_is_read_in_order_and_says_once_that_it_has_none() -> None:
    text = ArrivingText()
    reading = iter(text)
    text.write("one")
    text.write("")
    text.pause()
    text.write("two")
    assert [next(reading) for _ in range(4)] == ["one", Lull.LONG, "two", Lull.SHORT]
    assert not text.wait(0)
    text.write("three")
    assert text.wait(0)
    text.close()
    assert list(reading) == ["three"]
    with pytest.raises(SonorantError, match="this text is no longer read"):
        text.write("four")


def test_a_patient_text_waits_for_whoever_writes_it() -> None:
    text = ArrivingText(patience=0.01)
    reading = iter(text)
    assert [next(reading), next(reading)] == [Lull.SHORT, Lull.LONG]
    later = Timer(0.05, lambda: text.write("late"))
    later.start()
    assert next(reading) == "late"
    later.join(PATIENCE)


def test_an_error_in_the_block_that_writes_is_raised_where_it_is_read() -> None:
    with pytest.raises(ConnectionError, match="gone"), ArrivingText() as text:
        text.write("one")
        raise ConnectionError("gone")
    reading = iter(text)
    assert next(reading) == "one"
    with pytest.raises(ConnectionError, match="gone"):
        next(reading)


def test_what_cannot_be_written_is_told() -> None:
    text = ArrivingText()
    with pytest.raises(SonorantError, match="write strings, not NoneType"):
        text.write(None)  # type: ignore[arg-type]
    text.close()
    with pytest.raises(SonorantError, match="the text has ended; write to a new one"):
        text.write("one")
    with pytest.raises(SonorantError, match="patience must be at least 0 seconds, not -1"):
        ArrivingText(patience=-1)
