import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sonorant.errors import SonorantError
from sonorant.text import Frontend, load_frontend
from sonorant.text.markup import MarkedText, Prosody
from sonorant.text.phrases import Phrase, split_phrases


def phrases(text: str, frontend: Frontend, *, markup: bool = True) -> tuple[MarkedText, list[Phrase]]:
    marked = MarkedText([text], frontend, markup=markup)
    return marked, [phrase for phrase in split_phrases(marked, frontend, marked.given) if isinstance(phrase, Phrase)]


def words(text: str, frontend: Frontend) -> list[tuple[str, str, str, float | None, Prosody]]:
    """Each unit as spoken, as written, phonemes, seconds, prosody."""
    marked, found = phrases(text, frontend)
    rows = []
    for phrase in found:
        for unit in phrase.spoken.units:
            phonemes = "".join(p.symbol for p in phrase.spoken.phonemes[unit.first : unit.after])
            written = text[slice(*marked.source(unit.start, unit.end))]
            rows.append((unit.text, written, phonemes, unit.seconds, marked.prosody(unit.start)))
    return rows


def test_phonemes_between_brackets_are_said(frontend: Frontend) -> None:
    found = {word: phonemes for _, word, phonemes, *_ in words("Call [[ʃɪˈvɔn]], or [[h ə l ˈoʊ]].", frontend)}
    assert {"[[ʃɪˈvɔn]]": "ʃɪvɔn", "[[h ə l ˈoʊ]]": "həloʊ", "Call": "kɔl"}.items() <= found.items()


def test_a_pause_inside_a_sentence_is_part_of_it(frontend: Frontend) -> None:
    text = "Then wait [[pause 250ms]] a bit, [[pause 1]] please."
    found = words(text, frontend)
    seconds = {written: seconds for _, written, _, seconds, _ in found if seconds}
    assert seconds == {"[[pause 250ms]]": 0.25, "[[pause 1]]": 1.0}
    assert " ".join(spoken for spoken, *_ in found) == "Then wait , a bit , please ."
    assert len(phrases(text, frontend)[1]) == 1


def test_a_pause_between_sentences_parts_them(frontend: Frontend) -> None:
    _, found = phrases("[[pause 2]] One. [[pause 0.5]] [[pause 0.5]] Two. Three [[pause 3s]]", frontend)
    assert [(phrase.spoken.text, phrase.pause) for phrase in found] == [
        ("", 2.0), ("One.", 0.5), ("", 0.5), ("Two.", None), ("Three", 3.0),
    ]  # fmt: skip


def test_prosody_holds_for_its_run_and_multiplies(frontend: Frontend) -> None:
    text = (
        '<speak>one <prosody rate="150%" pitch="+2st">two <prosody rate="slow" pitch="-1st">three</prosody></prosody> '
        '<prosody rate="+20%" pitch="high">four</prosody> <prosody pitch="-50%">five</prosody></speak>'
    )
    found = {word: prosody for _, word, _, _, prosody in words(text, frontend)}
    assert found["one"] == Prosody()
    assert found["two"] == Prosody(1.5, 2.0)
    assert (found["three"].rate, found["three"].pitch) == pytest.approx((1.125, 1.0))
    assert found["four"] == Prosody(1.2, 3.0)
    assert found["five"] == Prosody(1.0, -12.0)


def test_elements_of_ssml_are_spoken(frontend: Frontend) -> None:
    text = """<?xml version="1.0"?>
    <speak version="1.1" xmlns="http://www.w3.org/2001/10/synthesis" xml:lang="en-US">
      <p>Say <phoneme alphabet="ipa" ph="təˈmɑtoʊ">tomato</phoneme> &amp; wait.</p>
      <!-- a remark -->
      <p><s>The <sub alias="World Wide Web">WWW</sub> is naïve.</s></p>
      <s><say-as interpret-as="characters">a1</say-as> <say-as interpret-as="ordinal">3</say-as></s>
      <say-as interpret-as="date" format="dmy">3/4/2020</say-as>
      <say-as interpret-as="telephone">555 01</say-as> <say-as interpret-as="cardinal">XIV</say-as>,
      <say-as interpret-as="cardinal">2,5</say-as>
    </speak>"""
    found = words(text, frontend)
    assert ("tomato", '<phoneme alphabet="ipa" ph="təˈmɑtoʊ">tomato</phoneme>', "təmɑtoʊ", None, Prosody()) in found
    alias = [spoken for spoken, written, *_ in found if written == '<sub alias="World Wide Web">WWW</sub>']
    assert alias == ["World", "Wide", "Web"]
    spoken = " ".join(phrase.spoken.text for phrase in phrases(text, frontend)[1])
    assert "Say tomato and wait. The World Wide Web is naive. A, one third" in spoken
    assert "April third twenty twenty five five five, zero one fourteen, two point five" in spoken
    assert next(phonemes for word, _, phonemes, *_ in found if word == "A") == "eɪ"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("one [[ q ]] two", r"character 5: \[\[q\]\]: 'q' does not begin with a phoneme of en-us"),
        ("one [[pause x]]", r"character 5: \[\[pause x\]\]: 'x' is not a pause; write 0 to 60 seconds"),
        ("[[pause 61]]", r"character 1: \[\[pause 61\]\]: '61' is not a pause"),
        ("one [[ two", r"character 5: \[\[ without \]\]"),
        ("one [[" + "ə" * 500 + "]]", r"character 5: \[\[ without \]\]"),
        ('a <break time="1s"/> b', 'character 3: <break time="1s"/> outside <speak>; put <speak> and </speak> around'),
        ("[[ə]] a</prosody>", "character 8: </prosody> outside <speak>"),
        ('<sub alias="x">y</sub>', 'character 1: <sub alias="x"> outside <speak>'),
        ("a <emphasis>b</emphasis>", "character 3: <emphasis> outside <speak>"),
        ("<speak>a <b>x</b></speak>", "SSML line 1, column 10: <b> is not supported; inside <speak> use p, s"),
        ("<speak>\n a", "SSML line 2, column 3: no element found"),
        ("<speak>&x;</speak>", "SSML line 1, column 8: undefined entity"),
        ('<!DOCTYPE speak [<!ENTITY a "b">]><speak>&a;</speak>', "SSML line 1, .*: document types are not allowed"),
        ('<?xml version="1.0"?><talk/>', "SSML line 1, column 22: the document begins with <talk>"),
        ('<speak><break time="99"/></speak>', "SSML line 1, column 8: <break>: '99' is not a pause"),
        ("<speak><break>x</break></speak>", "SSML line 1, .*: <break> cannot contain text"),
        (
            '<speak><prosody volume="loud">x</prosody></speak>',
            "SSML .*: <prosody> does not support the attribute volume",
        ),
        ('<speak><prosody rate="fst">x</prosody></speak>', "SSML .*: <prosody>: invalid rate 'fst'; write 120%"),
        ('<speak><prosody pitch="200Hz">x</prosody></speak>', r"SSML .*: <prosody>: invalid pitch '200Hz'"),
        ('<speak><phoneme ph="q">x</phoneme></speak>', "SSML .*: <phoneme>: 'q' does not begin with a phoneme"),
        ('<speak><phoneme alphabet="x-sampa" ph="a">x</phoneme></speak>', "SSML .*: unknown alphabet x-sampa"),
        ("<speak><sub>x</sub></speak>", "SSML .*: <sub> requires the attribute alias"),
        ('<speak><sub alias="x"><s>x</s></sub></speak>', "SSML .*: <s> inside <sub>, which may contain only text"),
        ('<speak><say-as interpret-as="song">x</say-as></speak>', "SSML .*: <say-as>: interpret-as song is unknown"),
        ('<speak><say-as interpret-as="digits">x</say-as></speak>', "SSML .*: <say-as>: 'x' has no digits"),
        ('<speak><say-as interpret-as="date" format="mdy">13/1/20</say-as></speak>', "SSML .*: there is no month 13"),
        ('<speak xml:lang="de">x</speak>', "SSML line 1, column 1: xml:lang is de, but this voice speaks en-us"),
        ("<speak>" + "<p>" * 40 + "</p>" * 40 + "</speak>", "SSML .*: more than 32 nested elements"),
    ],
)
def test_a_fault_is_one_line_with_its_place(frontend: Frontend, text: str, message: str) -> None:
    with pytest.raises(SonorantError, match=f"^{message}") as error:
        phrases(text, frontend)
    assert "\n" not in str(error.value)


def test_tags_are_seen_in_fragments_and_other_brackets_are_text(frontend: Frontend) -> None:
    with pytest.raises(SonorantError, match="character 3: <break/> outside"):
        list(MarkedText(list("a <break/> b"), frontend))
    text = "1 < 2 <3 <b>x</b> H<sub>2</sub>O <breakfast> <prosody"
    assert "".join(map(str, MarkedText(list(text), frontend))) == text


def test_marks_may_be_ordinary_characters(frontend: Frontend) -> None:
    _, found = phrases("a [[pause 1]] <speak>", frontend, markup=False)
    assert [phrase.spoken.text for phrase in found] == ["a (pause one) (speak)"]


def test_private_characters_of_a_text_are_no_marks(frontend: Frontend) -> None:
    _, found = phrases("one \U00100400 two \U000f0000 three", frontend)
    assert len(found) == 1
    assert found[0].spoken.unknown == ("\ufffd",)
    assert all(unit.seconds is None for unit in found[0].spoken.units)


def test_a_word_is_not_looked_for_behind_those_that_follow_it(frontend: Frontend) -> None:
    found = [written for _, written, *_ in words("Dr. dogs Dr. Dr.", frontend)]
    assert found == ["Dr.", "dogs", "Dr.", "Dr."]


PLAIN = "Dr. Smith's 3 dogs cost $4.50 on Jan. 5th, 2020; he read 1/2 a page at 10:30 p.m. Naïve “quotes” – or so on!"


@settings(max_examples=40)
@given(st.lists(st.sampled_from(PLAIN.split()), min_size=1, max_size=12))
def test_each_unit_stands_where_its_word_is_written(chosen: list[str]) -> None:
    frontend = load_frontend("gruut", "en-us")
    text = " ".join(chosen)
    marked, found = phrases(text, frontend)
    end = 0
    for phrase in found:
        units = phrase.spoken.units
        assert [0, *(unit.after for unit in units)] == [*(unit.first for unit in units), len(phrase.spoken.phonemes)]
        for unit in units:
            first, last = marked.source(unit.start, unit.end)
            assert 0 <= first <= last <= len(text)
            assert last >= end or first >= end - 40  # words of one written form share its span
            assert unit.text not in chosen or not unit.text.isalpha() or unit.text in text[first:last]
            end = max(end, last)
