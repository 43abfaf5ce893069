import threading
from collections.abc import Iterator

import numpy as np
import pytest

from sonorant.errors import SonorantError
from sonorant.speech import ArrivingText
from sonorant.speech.voice import Voice
from sonorant.text.arriving import Lull
from tests.support.runtimes import joined
from tests.support.waiting import PATIENCE

TOLERANCE = 1e-5
"""Fraction of full scale."""
TEXT = "Hello there. Dr. Smith paid $3.50 for it [[pause 0.3]] today. [[h ə l ˈoʊ]] Anna! Who,\n\nme"


@pytest.mark.parametrize("fragments", [list(TEXT), ["", TEXT[:30], "", TEXT[30:]]])
def test_fragments_are_spoken_as_the_whole_text_with_the_same_timings(any_voice: Voice, fragments: list[str]) -> None:
    samples, expected = any_voice.say_timed(TEXT)
    speech = any_voice.stream(fragments, timings=True)
    told = [(chunk, speech.completed) for chunk in speech]
    np.testing.assert_allclose(joined(chunk for chunk, _ in told), samples, rtol=0, atol=TOLERANCE)
    assert all(len(chunk) for chunk, _ in told)
    words = [word for _, completed in told for word in completed]
    assert [(word.text, word.first, word.last) for word in words] == [(w.text, w.first, w.last) for w in expected]


def test_a_phrase_is_given_whole_before_more_text_is_asked_for(any_voice: Voice) -> None:
    given, at = [0], []

    def tokens() -> Iterator[str]:
        for token in ("One", " apple", ".", " Two", " pears", ".", " The", " end"):
            at.append(given[0])
            yield token

    speech, words = any_voice.stream(tokens(), timings=True, chunk=5000), []
    for chunk in speech:
        given[0] += len(chunk)
        words.append([word.text for word in speech.completed])
    alone = len(any_voice.say("One apple."))
    assert at[:4] == [0, 0, 0, 0]
    assert at[4] == alone
    assert [word for told in words for word in told] == ["One", "apple", "Two", "pears", "The", "end"]


def test_what_the_source_raises_is_raised_after_the_speech_before_it(any_voice: Voice) -> None:
    def broken() -> Iterator[str]:
        yield "One apple. Two"
        raise ConnectionError("gone")

    speech, given = any_voice.stream(broken()), 0
    with pytest.raises(ConnectionError, match="gone"):
        for chunk in speech:
            given += len(chunk)
    assert given == len(any_voice.say("One apple."))
    assert list(speech) == []


def test_a_closed_speech_lets_its_source_go(any_voice: Voice) -> None:
    ended = []

    def endless() -> Iterator[str]:
        try:
            while True:
                yield "And so it went on. "
        finally:
            ended.append(True)

    speech = any_voice.stream(endless())
    next(speech)
    speech.close()
    assert ended == [True]
    text = ArrivingText()
    speech = any_voice.stream(text)
    text.write("One apple. Two")
    next(speech)
    speech.close()
    with pytest.raises(SonorantError, match="this text is no longer read"):
        text.write(" pears.")


def test_one_thread_writes_and_another_speaks(any_voice: Voice) -> None:
    text = ArrivingText()

    def write() -> None:
        with text:
            for token in TEXT:
                text.write(token)

    thread = threading.Thread(target=write)
    thread.start()
    samples = joined(any_voice.stream(text))
    thread.join(PATIENCE)
    np.testing.assert_allclose(samples, any_voice.say(TEXT), rtol=0, atol=TOLERANCE)


def test_a_lull_gives_control_back_where_it_is_asked_for(any_voice: Voice) -> None:
    text = ArrivingText()
    speech = any_voice.stream(text)
    assert len(speech.advance()) == 0
    text.write("One apple.")
    assert len(speech.advance()) == 0
    text.pause()
    given = 0
    while len(chunk := speech.advance()) or not given:
        given += len(chunk)
    assert given == len(any_voice.say("One apple."))
    text.close()
    assert list(speech) == []


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (["Hello ", None, "there."], "the text contains a fragment of type NoneType; give only strings"),
        ([b"Hello."], "the text contains a fragment of type bytes; give only strings"),
        (None, "the text is of type NoneType; give a string, an iterable of strings, or an ArrivingText"),
        ([Lull.SHORT, Lull.LONG], "the text is empty"),
    ],
)
def test_what_is_no_text_is_told_in_a_line(any_voice: Voice, text: object, line: str) -> None:
    with pytest.raises(SonorantError, match=line):
        joined(any_voice.stream(text))
