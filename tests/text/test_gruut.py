import pickle
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version

import gruut
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sonorant.errors import SonorantError
from sonorant.text import SpokenText, load_frontend
from sonorant.text.frontend import PAUSES, Phoneme
from sonorant.text.pieces import Piece, spoken_text

FRONTEND = load_frontend("gruut", "en-us")
SENTENCES = (
    "The seventh zebra jumped over a lazy brown fox; it was quick!",
    "Printing, in the only sense with which we are at present concerned, differs from most arts.",
    "Is the reader sure that Doctor Smith's invention was worth forty dollars?",
    "Blorft and quixling are words that no lexicon holds.",
)


def ipa(spoken: SpokenText) -> str:
    marks = ("", "ˈ", "ˌ")
    return "".join(f"{' ' if p.word_start else ''}{marks[p.stress]}{p.symbol}" for p in spoken.phonemes).strip()


@pytest.mark.parametrize("sentence", SENTENCES)
def test_words_are_pronounced_as_gruut_does(sentence: str) -> None:
    words = [word for part in gruut.sentences(sentence, lang="en-us") for word in part if word.is_spoken]
    expected = ["".join(word.phonemes) for word in words]
    spoken = ipa(FRONTEND.speak(sentence))
    assert [word.rstrip("".join(PAUSES)) for word in spoken.split()] == expected


@pytest.mark.parametrize(
    ("written", "spoken"),
    [
        ("$3.50", "three dollars and fifty cents"),
        ("1/2/2023", "January second twenty twenty three"),
        ("5kg and 3.5 km", "five kilograms and three point five kilometers"),
        ("$2.5m", "two point five million dollars"),
        ("the 1990s", "the nineteen nineties"),
        ("3½ cups", "three and one half cups"),
        ("20 °C", "twenty degrees Celsius"),
        ("No. 5", "number five"),
        ("St. John", "Saint John"),
        ("R&D, 5%", "R and D, five percent"),
        ("covid19", "covid nineteen"),
        ("99.9.9", "ninety nine point nine point nine"),
        ("café", "cafe"),
        ("ﬁne", "fine"),
        ("٣", "three"),
        ("It’s “good”, isn‘t it…", "It's \"good\", isn't it..."),
        ("one — two – three", "one, two, three"),
        ("10–20 well‑known soft\u00adware", "10-20 well-known software"),
        ("no\u200bthing\ufeff\u00a0more", "nothing more"),
        ("Yes,no.But", "Yes, no. But"),
        ("STOP! This is VERY important.", "Stop! This is very important."),
        ("CHAPTER IV. IT WAS DARK, DR. BLORFTSON", "Chapter four. It was dark, Doctor Blorftson"),
        ("Dr. SMITH of Gary, IN", "Doctor Smith of Gary, Indiana"),
        ("US, IT, the FBI and NASA", "U S, I T, the F B I and nasa"),
        ("AT&T IS BIG", "A T and T is big"),
        ("THE US ARMY ID AT 10 AM", "The U S army I D at ten A M"),
        ("€2,99 or $1,50", "two euros and ninety nine cents or one dollar and fifty cents"),
        ("12,5 km of 1.000,50", "twelve point five kilometers of one thousand point five zero"),
        ("10 000, 1,234 and 1,2,3", "ten thousand, one thousand two hundred thirty four and one, two, three"),
        ("mp3, utf-8, v2.3.1", "M P three, U T F eight, v two point three point one"),
        ("file.tar.gz", "file dot tar dot G Z"),
        ("2024-12-25T10:05:00Z", "December twenty fifth twenty twenty four at ten oh five U T C"),
        ("2024-12-25 10:05:07-05:30", "2024-12-25 at ten oh five and seven seconds U T C minus five thirty"),
        ("§5, GROẞ", "section five, gross"),
        ("C#, F♯ and C++", "C sharp, F sharp and C plus plus"),
    ],
)
def test_written_forms_and_typography_are_spoken_as_plain_words(written: str, spoken: str) -> None:
    result = FRONTEND.speak(written)
    assert (ipa(result), result.unknown) == (ipa(FRONTEND.speak(spoken)), ())


@pytest.mark.parametrize("text", ["Vitamin A", "an A", "A4 paper", "A-level", "A#", "A+", "Plan A", "in A minor"])
def test_the_letter_a_has_its_name_and_the_article_has_not(text: str) -> None:
    assert "ˈeɪ" in ipa(FRONTEND.speak(text)).split()
    assert "ˈeɪ" not in ipa(FRONTEND.speak("A tale of a Vitamin. A four. A major one in A Time.")).split()


def test_characters_that_cannot_be_spoken_are_named_once_and_left_out() -> None:
    result = FRONTEND.speak("one 😀 два 你 two 😀 \x00")
    assert result.unknown == ("😀", "д", "в", "а", "你", "\x00")
    assert ipa(result) == ipa(FRONTEND.speak("one two"))
    assert FRONTEND.speak("#one F#m † 5‰").unknown == ("#", "†", "‰")


def test_punctuation_becomes_pauses() -> None:
    pauses = [p.symbol for p in FRONTEND.speak("Well... (yes); no? Stop! Then: go.").phonemes if p.symbol in PAUSES]
    assert pauses == [",", ",", "?", "!", ",", "."]


def test_of_pauses_in_a_row_the_strongest_stays() -> None:
    symbols = [",", "a", ",", "?", ",", "b", "!", ".", "c", ",", ","]
    pieces = [Piece(symbol, (place, place + 1), (Phoneme(symbol),)) for place, symbol in enumerate(symbols)]
    joined = spoken_text("", pieces, ())
    assert "".join(phoneme.symbol for phoneme in joined.phonemes) == "a?b!c,"
    assert [(unit.start, unit.first, unit.after) for unit in joined.units] == [
        (start, place, place + 1) for place, start in enumerate((1, 3, 5, 6, 8, 9))
    ]


@pytest.mark.parametrize("silence", ["", "   ", "...", "?!", "“ ”", "😀", "\n\t"])
def test_nothing_to_say_gives_no_phonemes(silence: str) -> None:
    assert FRONTEND.speak(silence).phonemes == ()
    assert FRONTEND.sentences(silence) == []


def test_sentences_are_the_whole_text_in_parts() -> None:
    text = "Dr. Smith came at 3 p.m. on Monday. Was he late? 😀 No! He was early"
    parts = FRONTEND.sentences(text)
    assert len(parts) == 4
    assert tuple(p for part in parts for p in part.phonemes) == FRONTEND.speak(text).phonemes
    assert parts[0].unknown == ("😀",)
    assert not any(part.unknown for part in parts[1:])


@settings(max_examples=150)
@given(st.one_of(st.text(max_size=60), st.text(alphabet="0123456789.,:/-$€%°½'’–… aAz\n", max_size=30)))
def test_any_text_is_accepted_and_stays_inside_the_inventory(text: str) -> None:
    for spoken in (FRONTEND.speak(text), *FRONTEND.sentences(text)):
        assert all(p.symbol in FRONTEND.symbols and p.stress in (0, 1, 2) for p in spoken.phonemes)
        assert not any(p.word_start for p in spoken.phonemes if p.symbol in PAUSES)
        assert not spoken.phonemes or spoken.phonemes[0].symbol not in PAUSES


@pytest.mark.parametrize(
    "text",
    ["9" * 400, "1e400", "a" * 5000, "31/31/2000", "1" + ",000" * 20, "1" * 4400 + "th", "2^" + "9" * 1500, "<&amp;>"],
)
def test_hostile_text_is_accepted(text: str) -> None:
    assert FRONTEND.speak(text).phonemes


def test_threads_and_pickled_copies_agree() -> None:
    expected = [FRONTEND.speak(sentence) for sentence in SENTENCES]
    copy = pickle.loads(pickle.dumps(FRONTEND))
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(copy.speak, SENTENCES * 4)) == expected * 4


def test_names_are_checked_in_one_line_and_the_version_names_the_data() -> None:
    assert load_frontend("gruut", "en_US").language == "en-us"
    assert FRONTEND.version == f"gruut {gruut.__version__}, gruut_lang_en {version('gruut_lang_en')}, rules 3"
    with pytest.raises(SonorantError, match=r"^language 'xx-yy' is not supported by gruut; use one of .*en-us"):
        load_frontend("gruut", "xx-yy")
    with pytest.raises(SonorantError, match=r"unknown frontend 'grut'; allowed: gruut, espeak"):
        load_frontend("grut", "en-us")
