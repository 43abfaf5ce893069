import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sonorant.extras.long.placing import NOWHERE, place_words
from sonorant.extras.long.script import Script, read_script, without_cues
from sonorant.text.written_words import plain_words

_CHANCE = np.random.default_rng(0)
# Different words, so that a repeated sentence is not mistaken for another.
WORDS = ["".join(_CHANCE.choice(list("abcdefghijklmnopqrstuvwxyz"), 8)) for _ in range(45)]


def script_of(sentences: list[list[str]]) -> Script:
    return read_script(" ".join(" ".join(words).capitalize() + "." for words in sentences), "xx")


def test_numbers_and_abbreviations_are_words_as_spoken_and_stay_as_written() -> None:
    script = read_script("Mr. Howison paid $5.50 in 1984 — really?\n\nHis dog, Lop-Ear, screamed", "en-us")
    said = "mister howison paid five dollars and fifty cents in nineteen eighty four really his dog lop ear screamed"
    assert list(script.words) == said.split()
    place = {word: number for number, word in enumerate(script.words)}
    assert script.text(place["paid"], place["in"]) == "paid $5.50"
    assert script.text(place["nineteen"], place["really"]) == "1984 —"
    assert script.text(0, len(script.words)) == "Mr. Howison paid $5.50 in 1984 — really? His dog, Lop-Ear, screamed"
    assert not script.begins(place["eighty"]) and not script.begins(place["ear"]) and script.begins(place["his"])
    assert script.sentence_ends == {0, place["his"], len(script.words)}  # a paragraph's end, but not an abbreviation's
    assert {place["lop"], place["screamed"]} <= script.clause_ends


PRINTED = """12

THE RETURN

HOST: He raised his shield.[3] The vegeta-
tion was well-
known, to-
day too.12 Nobody¹ cared.
- 13 -
Men who “came.”4 They went

[00:01:02] Host: no further than 5 m² and
Host: 10.5 metres.

ONE WAS MR. SMITH.
"""


def test_what_readers_leave_out_is_aside_and_divided_words_are_joined() -> None:
    script = read_script(PRINTED, "en-us")
    asides = [script.text(aside.start, aside.stop) for aside in script.asides]
    assert asides == ["12", "THE RETURN", "HOST:", "[3]", "12", "¹", "-13-", "4", "[00:01:02] Host:", "Host:"]
    read = script.without({word for aside in script.asides for word in aside})
    said = """he raised his shield the vegetation was well known today too nobody cared men who came they went
        no further than five square meters and ten point five metres one was mister smith"""
    assert (list(read.words), read.asides) == (said.split(), ())
    text = read.text(0, len(read.words))
    assert text.startswith(
        "He raised his shield. The vegetation was well-known, today too. Nobody cared. Men who “came.” "
    )


def test_subtitles_are_read_as_their_text() -> None:
    cues = "WEBVTT - told\n\n00:01.000 --> 00:04.000 line:1\n<v Bob>I said,\n\n2\n00:05.000 --> 00:07.000\nno.\n"
    assert without_cues(cues).strip() == "I said,\nno."


def test_a_language_without_a_frontend_keeps_its_words() -> None:
    assert read_script("Ĉiu homo, «egala».", "eo").words == ("ĉiu", "homo", "egala")
    assert plain_words("Don’t_stop—now, O'Brien!") == ["don't", "stop", "now", "o'brien"]
    assert read_script("— … !", "en-us").words == ()


@st.composite
def readings(draw: st.DrawFn) -> tuple[list[list[str]], list[int]]:
    """Sentences without repeated words, and a reading order: some skipped, some twice."""
    words = draw(st.permutations(WORDS))
    sentences = [words[first : first + 5] for first in range(0, 5 * draw(st.integers(2, 9)), 5)]
    return sentences, [number for number in range(len(sentences)) for _ in range(draw(st.integers(0, 2)))]


@given(readings())
def test_each_word_is_placed_where_it_stands_also_after_skips_and_repeats(
    reading: tuple[list[list[str]], list[int]],
) -> None:
    sentences, order = reading
    heard = [word for number in order for word in sentences[number]]
    wanted = [5 * number + place for number in order for place in range(5)]
    assert place_words(heard, script_of(sentences)).tolist() == wanted


def test_what_is_not_in_the_text_is_nowhere() -> None:
    sentences = [WORDS[:6], WORDS[6:12], WORDS[12:18]]
    added = ["quite", "another", "thing", "was", "said", "here"]
    places = place_words([*sentences[0], *added, *sentences[1], *sentences[2]], script_of(sentences)).tolist()
    assert places == [*range(6), *[NOWHERE] * 6, *range(6, 18)]


def test_a_long_text_is_placed_piece_by_piece() -> None:
    """More words than are placed at a time, and a jump beyond the search range."""
    chance = np.random.default_rng(1)
    words = [f"{WORDS[one]}{WORDS[two]}" for one, two in chance.integers(0, len(WORDS), (4000, 2))]
    script = script_of([words[first : first + 8] for first in range(0, 4000, 8)])
    wanted = [*range(1200), *range(3200, 4000), *range(400, 800)]
    places = place_words([words[place] for place in wanted], script)
    assert np.mean(places == np.array(wanted)) > 0.98
