import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sonorant.corpus.audit.findings import Audited, AuditedWord, Fault
from sonorant.corpus.audit.labels import Labels
from sonorant.corpus.audit.readings import (
    MOST,
    Question,
    ReadingAnswer,
    forms,
    number_readings,
    other_texts,
    question_of,
    weigh,
    with_reading,
)
from sonorant.corpus.manifest import Utterance
from sonorant.corpus.splits import words_of
from sonorant.text import load_frontend

FRONTEND = load_frontend("gruut", "en-us")
DOUBT = 0.8
TEXT = "They left in 1984, Dr. Brown and I."
AS_NUMBER = "they left in one thousand nine hundred and eighty four doctor brown and i"


def utterance_of(text: str) -> Utterance:
    return Utterance(
        id="one",
        audio="one.wav",
        text=text,
        speaker="s",
        language="en-us",
        spoken=FRONTEND.speak(text).text,
    )


def asked(text: str) -> tuple[Question, Labels]:
    utterance = utterance_of(text)
    labels = Labels([utterance], "gruut")
    question = question_of(utterance, labels.of_text(text, utterance.spoken or "", "en-us"), labels)
    assert question is not None
    return question, labels


def spoken(words: tuple) -> str:
    return " ".join(word for word, _ in words)


def row(score: float, words: str = "", doubtful: str = "", heard: str = "", fault: Fault | None = None) -> Audited:
    return Audited(
        id="one",
        clip="c",
        score=score,
        fault=fault or (Fault.OTHER_WORDS if score >= DOUBT else None),
        words=tuple(
            AuditedWord(text=word, start=0.0, end=1.0, doubt=float(word in doubtful.split())) for word in words.split()
        ),
        unexplained=(),
        heard={"ears": heard} if heard else {},
        figures={},
    )


@given(st.integers(13, 9999))
def test_a_form_is_the_number_and_one_of_its_readings_is_the_frontend_s(number: int) -> None:
    text = f"We saw {number} ships there."
    said = words_of(FRONTEND.speak(text).text)
    assert [(form.written, form.first, form.end) for form in forms(text, said)] == [(str(number), 2, len(said) - 2)]
    read = " ".join(said[2:-2])
    readings = number_readings(str(number), "en-us")
    assert read in readings.values(), "else each clip with a number would have no reading of its own"
    texts = other_texts(text, "en-us")
    assert texts == [f"We saw {reading} ships there." for reading in dict.fromkeys(readings.values())]


def test_what_is_written_as_it_is_spoken_is_no_form() -> None:
    for text in ("Nothing here, o'clock, well-known stuff.", "", "U.S. and so on"):
        assert forms(text, words_of(FRONTEND.speak(text).text)) == []


@pytest.mark.parametrize("text", ["It cost $3.50.", "At 5:30 he left.", "On 3/4 of them", "1.5 times", "5% of it"])
def test_sums_times_and_fractions_are_left_to_the_frontend(text: str) -> None:
    assert other_texts(text, "en-us") == []


def test_there_are_not_too_many_and_other_languages_have_their_own() -> None:
    assert len(other_texts("1984, 1985, 1986, 305, 1,250 and the BBC", "en-us")) == MOST
    assert number_readings("1984", "de-de")["year"] == "neunzehnhundertvierundachtzig"
    assert "without and" not in number_readings("1984", "de-de")


def test_a_question_holds_each_other_reading_once_and_not_the_frontend_s() -> None:
    question, _ = asked(TEXT)
    assert spoken(question.words) == "they left in nineteen eighty four doctor brown and i"
    others = [spoken(words) for words in question.others]
    assert AS_NUMBER in others and AS_NUMBER.replace("hundred and", "hundred") in others
    assert "they left in one nine eight four doctor brown and i" in others
    assert "they left in nineteen eighty four drive brown and i" in others
    assert len(set(others)) == len(others) and spoken(question.words) not in others


def test_the_reading_that_the_sound_says_gains_and_no_other_where_the_text_is_right() -> None:
    question, labels = asked(TEXT)
    for said in (question.words, *question.others):
        frames = [0] * 6 + [phone for _, word in said for phone in word for _ in range(4)] + [0] * 6
        noise = np.random.default_rng(1).normal(size=(len(frames), len(labels.symbols) + 1))
        noise[np.arange(len(frames)), frames] += 8.0
        logs = (noise - np.log(np.exp(noise).sum(axis=1, keepdims=True))).astype(np.float32)
        answer = weigh(logs, question.words, question.others)
        found = with_reading(row(0.1), question, answer, DOUBT)
        if said == question.words:
            assert found == row(0.1) and max(answer["gains"]) < 0
        else:
            assert np.argmax(answer["gains"]) == question.others.index(said)
            assert found.fault == Fault.READING and found.score == DOUBT and found.reading is not None
            assert found.reading.written in ("1984", "1984, Dr") and found.reading.heard in spoken(said)


def test_a_recogniser_names_the_reading_it_heard_where_the_clip_is_doubtful() -> None:
    question, _ = asked("They left in 1984.")
    heard = "they left in one thousand nine hundred eighty for"
    found = with_reading(row(0.9, heard=heard), question, None, DOUBT)
    assert found.fault == Fault.READING and found.reading is not None
    assert (found.reading.written, found.reading.expected) == ("1984", "nineteen eighty four")
    assert found.reading.heard == "one thousand nine hundred eighty four"
    gains = [-5.0] * len(question.others)
    against = ReadingAnswer(lacking=50.0, gains=gains)
    for unmoved, answer in ((row(0.5, heard=heard), None), (row(0.9, heard=heard), against), (row(0.9), None)):
        assert with_reading(unmoved, question, answer, DOUBT) == unmoved


def test_doubtful_words_that_all_say_a_number_name_it() -> None:
    question, _ = asked("They left in 1984.")
    words = spoken(question.words)
    found = with_reading(row(0.9, words, doubtful="nineteen four"), question, None, DOUBT)
    assert found.fault == Fault.READING and found.reading is not None
    assert (found.reading.written, found.reading.heard) == ("1984", None)
    for unmoved in (row(0.9, words, doubtful="left four"), row(0.9, words), row(0.7, words, doubtful="four")):
        assert with_reading(unmoved, question, None, DOUBT) == unmoved


def test_another_text_is_not_taken_for_another_reading() -> None:
    question, _ = asked("They left in 1984.")
    gains = [12.0] * len(question.others)
    swapped = row(0.99, fault=Fault.OTHER_TEXT)
    assert with_reading(swapped, question, ReadingAnswer(lacking=20.0, gains=gains), DOUBT) == swapped
    fits_neither = ReadingAnswer(lacking=500.0, gains=gains)
    assert with_reading(row(0.3), question, fits_neither, DOUBT) == row(0.3)


def test_a_form_without_other_readings_is_named_by_its_doubtful_words_alone() -> None:
    question, _ = asked("It cost $3.50.")
    assert question.others == ()
    found = with_reading(row(0.9, spoken(question.words), doubtful="fifty"), question, None, DOUBT)
    assert found.reading is not None and found.reading.written == "3.50"
