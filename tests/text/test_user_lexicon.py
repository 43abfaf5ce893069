"""The user's lexicon decides wherever a word occurs; faults are named by file and line."""

import pickle
from pathlib import Path

import pytest

from sonorant.errors import SonorantError
from sonorant.text import TextConfig, load_frontend, load_with_lexicon
from sonorant.text.user_lexicon import Lexicon, read_lexicon

TEXT = """\
# names
[en-us]
Siobhan\tʃ ɪ v ˈɔ n
gmbh  d͡ʒ ˈi # ˈɛ m # b ˈi # ˈeɪ t͡ʃ
New Quay    nˈu # kˈi
nasa\tˈnæsə
C++  s ˈi # p l ˈʌ s

[de-de]
Siobhan\tʃ ɪ v ˈɔ n
"""


@pytest.fixture
def lexicon(tmp_path: Path) -> Path:
    (tmp_path / "lexicon.txt").write_text(TEXT, encoding="utf-8")
    return tmp_path / "lexicon.txt"


def sounds(text: str, lexicon: Path) -> dict[str, str]:
    spoken = load_with_lexicon("gruut", "en-us", str(lexicon)).speak(text)
    phonemes = spoken.phonemes
    return {text[u.start : u.end]: "".join(p.symbol for p in phonemes[u.first : u.after]) for u in spoken.units}


def test_words_sound_as_the_lexicon_says_and_all_others_as_before(lexicon: Path) -> None:
    text = "Did Siobhan work for the GmbH in New Quay, or for NASA (in C++)?"
    found, before = sounds(text, lexicon), load_frontend("gruut", "en-us").speak(text)
    assert found["Siobhan"] == "ʃɪvɔn"
    assert found["GmbH"] == "d͡ʒiɛmbieɪt͡ʃ"
    assert found["New Quay"] == "nuki"
    assert found["NASA"] == "næsə"
    assert found["C++"] == "siplʌs"
    phonemes = before.phonemes
    for unit in before.units:
        word = text[unit.start : unit.end]
        if word in ("Did", "work", "for", "the", "in", ",", "or", "?"):
            assert found[word] == "".join(p.symbol for p in phonemes[unit.first : unit.after])


def test_the_text_as_spoken_holds_the_written_word(lexicon: Path) -> None:
    spoken = load_with_lexicon("gruut", "en-us", str(lexicon)).speak("Siobhan paid $5.")
    assert spoken.text == "Siobhan paid five dollars."
    assert spoken.unknown == ()


def test_capitals_and_borders_of_words_count(lexicon: Path) -> None:
    found = Lexicon("en-us", {"Polish": "p ˈoʊ l ɪ ʃ", "us": "ˈʌ s"}, load_frontend("gruut", "en-us").symbols)
    assert [span[:2] for span in found.find("Polish us, polish US trust")] == [(0, 6), (7, 9), (18, 20)]
    assert not list(found.find("usable bus Polishing"))


def test_a_possessive_is_pronounced_with_its_word(lexicon: Path) -> None:
    assert sounds("Siobhan's house", lexicon)["Siobhan's"] == "ʃɪvɔnz"


def test_words_of_another_language_are_not_used(lexicon: Path) -> None:
    german = read_lexicon(lexicon, "de-de")
    assert german is not None
    assert list(german.entries) == ["Siobhan"]
    assert read_lexicon(lexicon, "fr-fr") is None


def test_words_of_a_language_hold_for_its_varieties(tmp_path: Path) -> None:
    file = tmp_path / "lexicon.txt"
    file.write_text("[en]\nboth\tə\nowned\tə\n[en-us]\nowned\tˈeɪ\n", encoding="utf-8")
    american, british = read_lexicon(file, "en_US"), read_lexicon(file, "en-gb")
    assert american is not None and american.entries == {"both": "ə", "owned": "ˈeɪ"}
    assert british is not None and british.entries == {"both": "ə", "owned": "ə"}


def test_the_version_tells_lexicons_apart_by_what_they_say(lexicon: Path, tmp_path: Path) -> None:
    frontend = load_with_lexicon("gruut", "en-us", str(lexicon))
    assert frontend.lexicon is not None
    assert frontend.lexicon.sha256[:12] in frontend.version
    copy = tmp_path / "copy.txt"
    copy.write_text(frontend.lexicon.text(), encoding="utf-8")
    assert load_with_lexicon("gruut", "en-us", str(copy)).version == frontend.version
    copy.write_text(frontend.lexicon.text().replace("næsə", "neɪsə"), encoding="utf-8")
    assert load_with_lexicon("gruut", "en-us", str(copy)).version != frontend.version
    assert pickle.loads(pickle.dumps(frontend)).speak("Siobhan") == frontend.speak("Siobhan")


def test_settings_name_the_file(lexicon: Path) -> None:
    assert TextConfig(frontend="gruut", lexicon=str(lexicon)).load("en-us").speak("NASA").phonemes[0].symbol == "n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Siobhan\tʃ ɪ v\n", r"line 1: a word before any language; begin with a line such as \[en-us\]"),
        (
            "[en-us]\nSiobhan ʃ ɪ v\n",
            "line 2: 'Siobhan ʃ ɪ v' is not an entry; write a word, a tab or two blanks, and phonemes",
        ),
        ("[en-us]\na\tˈeɪ\n\na\tə\n", "line 4: 'a' is already in line 2; keep one of them"),
        ("[en-us]\nx\tq ø\n", "line 2: 'x': 'q' does not begin with a phoneme of en-us; use ɑ æ"),
        ("[en-us]\nx\tˈˌ\n", "line 2: 'x': no phonemes"),
        (f"[en-us]\n{'x' * 200}\ta\n", "line 2: a word of 200 characters; at most 100"),
    ],
)
def test_a_fault_is_named_by_file_and_line(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "bad.txt"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(SonorantError, match=f"^{file}: {message}"):
        load_with_lexicon("gruut", "en-us", str(file))


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(SonorantError, match=r"^text\.lexicon: .*gone\.txt: cannot be read"):
        read_lexicon(tmp_path / "gone.txt", "en-us")
    (tmp_path / "latin.txt").write_bytes("[de-de]\nM\xfcll  m".encode("latin-1"))
    with pytest.raises(SonorantError, match=r"latin\.txt: not UTF-8 \(byte 9\)"):
        read_lexicon(tmp_path / "latin.txt", "de-de")
