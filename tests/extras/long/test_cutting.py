from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from sonorant.extras.long.cutting import MARGIN, PAUSE, Cut, cut, join_stretches
from sonorant.extras.long.listening import Heard
from sonorant.extras.long.placing import NOWHERE
from sonorant.extras.long.script import Script, read_script

TEXT = "One two three, four five. Six seven eight. Nine ten eleven twelve."
SCRIPT = read_script(TEXT, "xx")


def spoken(words: list[tuple[str, float]]) -> list[Heard]:
    """Words of 0.4 s, each after the given seconds of silence."""
    heard, at = [], 0.0
    for word, pause in words:
        heard.append((word, at + pause, at + pause + 0.4))
        at += pause + 0.4
    return heard


def texts(cuts: list[Cut], script: Script = SCRIPT) -> list[str]:
    return [script.text(one.first, one.last) for one in cuts]


def read(pauses: dict[int, float], order: list[int] | None = None) -> tuple[list[Heard], list[int]]:
    places = order or list(range(len(SCRIPT.words)))
    words = [("" if at == NOWHERE else SCRIPT.words[at], pauses.get(turn, 0.0)) for turn, at in enumerate(places)]
    return spoken(words), places


def test_sentences_are_cut_apart_at_their_pauses() -> None:
    cuts = cut(*read({0: 1.0, 5: 0.5, 8: 0.5}), SCRIPT, 1.0, 12.0)
    assert texts(cuts) == ["One two three, four five.", "Six seven eight.", "Nine ten eleven twelve."]
    assert (cuts[0].start, round(cuts[0].end, 3)) == (1.0 - MARGIN, 3.1)
    without = cut(*read({0: 1.0, 8: 0.5}), SCRIPT, 1.0, 12.0)
    assert texts(without)[0] == "One two three, four five. Six seven eight.", "without a pause between them"


def test_a_sentence_that_is_too_long_is_cut_at_its_comma() -> None:
    heard = read({0: 0.3, 2: 0.3, 3: 0.3, 5: 0.6, 8: 0.6})
    assert texts(cut(*heard, SCRIPT, 0.5, 2.2))[:2] == ["One two three,", "four five."]
    assert texts(cut(*heard, SCRIPT, 0.5, 0.9)) == ["three,"]  # too long without a pause


def test_what_is_said_again_is_an_utterance_again_and_what_breaks_off_is_none() -> None:
    again = read({0: 0.5, 5: 0.5, 10: 0.5, 13: 0.5}, [*range(5), *range(5), *range(5, 12)])
    assert texts(cut(*again, SCRIPT, 1.0, 12.0))[:2] == ["One two three, four five."] * 2
    broken = read({0: 0.5, 3: 0.5, 8: 0.5, 11: 0.5}, [*range(3), *range(12)])
    assert texts(cut(*broken, SCRIPT, 1.0, 12.0))[0] == "One two three, four five."
    assert len(cut(*broken, SCRIPT, 1.0, 12.0)) == 3


def test_words_that_the_text_lacks_are_in_no_utterance() -> None:
    places = [*range(5), NOWHERE, NOWHERE, NOWHERE, *range(5, 12)]
    cuts = cut(*read({0: 0.5, 5: 0.5, 8: 0.5, 11: 0.5}, places), SCRIPT, 1.0, 12.0)
    assert len(cuts) == 3 and cuts[0].end < 2.9 and cuts[1].start > 4.0
    close = cut(*read({0: 0.5, 8: 0.5, 11: 0.5}, places), SCRIPT, 1.0, 12.0)  # no pause before them
    assert texts(close) == ["Six seven eight.", "Nine ten eleven twelve."]


def test_a_word_that_was_missed_at_a_pause_is_not_cut_at() -> None:
    cuts = cut(*read({0: 0.5, 4: 0.5, 7: 0.5}, [0, 1, 2, 3, 5, 6, 7, 8, 9, 10, 11]), SCRIPT, 1.0, 12.0)
    assert texts(cuts)[0] == "One two three, four five. Six seven eight."


pauses = st.lists(st.floats(0.0, 1.0), min_size=12, max_size=12)


def test_an_atom_that_was_misheard_is_kept_where_the_text_goes_on_around_it() -> None:
    text = ["One two three, four five.", "Six seven eight.", "Nine ten eleven twelve."]
    heard, places = read({0: 0.5, 5: 0.5, 8: 0.5})
    misheard = [(word.replace("seven", "severn").replace("eight", "ate"), *at) for word, *at in heard]
    assert texts(cut(misheard, places, SCRIPT, 1.0, 12.0)) == text, "like what is written"
    other = [("moon" if word in ("six", "seven", "eight") else word, *at) for word, *at in heard]
    assert texts(cut(other, places, SCRIPT, 1.0, 12.0)) == [text[0], text[2]], "nothing like it"
    last = [("moan", *at) if word in ("eleven", "twelve") else (word, *at) for word, *at in read({0: 0.5, 10: 0.3})[0]]
    assert texts(cut(last, places, SCRIPT, 1.0, 12.0)) == [], "at the end nothing says that the text goes on"


@given(pauses, st.floats(0.3, 1.5), st.floats(2.0, 6.0))
def test_whatever_the_pauses_cuts_keep_the_rules(given_pauses: list[float], shortest: float, longest: float) -> None:
    heard, places = read(dict(enumerate(given_pauses)))
    cuts = cut(heard, places, SCRIPT, shortest, longest)
    for one in cuts:
        assert shortest - 0.01 <= one.end - one.start + MARGIN and one.end - one.start <= longest + 0.01
        inside = [turn for turn, (_, start, end) in enumerate(heard) if start < one.end and end > one.start]
        assert inside == list(range(one.first, one.last))  # its own words, and no part of another
        assert one.first == 0 or given_pauses[one.first] >= PAUSE - 1e-9
    assert all(before.end <= after.start + 1e-6 for before, after in pairwise(cuts))


@given(st.lists(st.tuples(st.floats(0.25, 2.0), st.floats(0.2, 8.0)), max_size=20))
def test_stretches_without_a_text_are_joined_within_the_limits(parts: list[tuple[float, float]]) -> None:
    stretches, at = [], 0.0
    for pause, length in parts:
        stretches.append((at + pause, at + pause + length))
        at += pause + length
    joined = join_stretches(stretches, 1.0, 12.0)
    assert all(end - start + MARGIN >= 1.0 and end - start <= 12.001 for start, end in joined)
    for start, end in stretches:  # each is whole in one, or in none
        touched = [one for one in joined if one[0] < end and one[1] > start]
        assert all(one[0] <= start and end <= one[1] for one in touched) and len(touched) <= 1
