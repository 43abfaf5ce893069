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


def sounds(text: str, lexicon: Path | None = None) -> dict[str, str]:
    spoken = load_with_lexicon("gruut", "en-us", lexicon and str(lexicon)).speak(text)
    phonemes = spoken.phonemes
    return {text[u.start : u.end]: "".join(p.symbol for p in phonemes[u.first : u.after]) for u in spoken.units}


def test_words_sound_as_the_lexicon_says_and_all_others_as_before(lexicon: Path) -> None:
    text = "Did Siobhan work for the GmbH in New Quay, or for NASA (in C++)?"
    found, before = sounds(text, lexicon), sounds(text)
    given = {"Siobhan": "ʃɪvɔn", "GmbH": "d͡ʒiɛmbieɪt͡ʃ", "New Quay": "nuki", "NASA": "næsə", "C++": "siplʌs"}
    assert given.items() <= found.items()
    others = ("Did", "work", "for", "the", "in", ",", "or", "?")
    assert [found[word] for word in others] == [before[word] for word in others]


def test_capitals_and_borders_of_words_count() -> None:
    found = Lexicon("en-us", {"Polish": "p ˈoʊ l ɪ ʃ", "us": "ˈʌ s"}, load_frontend("gruut", "en-us").symbols)
    assert [span[:2] for span in found.find("Polish us, polish US trust")] == [(0, 6), (7, 9), (18, 20)]
    assert not list(found.find("usable bus Polishing"))


def test_a_possessive_is_pronounced_with_its_word_and_the_text_keeps_it(lexicon: Path) -> None:
    assert sounds("Siobhan's house", lexicon)["Siobhan's"] == "ʃɪvɔnz"
    spoken = load_with_lexicon("gruut", "en-us", str(lexicon)).speak("Siobhan paid $5.")
    assert (spoken.text, spoken.unknown) == ("Siobhan paid five dollars.", ())


@pytest.mark.parametrize(
    ("language", "entries"),
    [("en_US", {"both": "ə", "owned": "ˈeɪ"}), ("en-gb", {"both": "ə", "owned": "ə"}), ("fr-fr", None)],
)
def test_words_of_a_language_hold_for_its_varieties(
    tmp_path: Path, language: str, entries: dict[str, str] | None
) -> None:
    file = tmp_path / "lexicon.txt"
    file.write_text("[en]\nboth\tə\nowned\tə\n[en-us]\nowned\tˈeɪ\n", encoding="utf-8")
    found = read_lexicon(file, language)
    assert (found and found.entries) == entries


def test_the_version_tells_lexicons_apart_by_what_they_say(lexicon: Path, tmp_path: Path) -> None:
    frontend = TextConfig(lexicon=str(lexicon)).load("en-us")
    assert frontend.lexicon is not None
    assert frontend.lexicon.sha256[:12] in frontend.version
    text, copy = frontend.lexicon.text(), tmp_path / "copy.txt"
    for content, same in ((text, True), (text.replace("næsə", "neɪsə"), False)):
        copy.write_text(content, encoding="utf-8")
        assert (load_with_lexicon("gruut", "en-us", str(copy)).version == frontend.version) == same
    assert pickle.loads(pickle.dumps(frontend)).speak("Siobhan") == frontend.speak("Siobhan")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Siobhan\tʃ ɪ v\n", r"line 1: a word before the first language; begin with a line such as \[en-us\]"),
        ("[en-us]\nSiobhan ʃ ɪ v\n", "line 2: 'Siobhan ʃ ɪ v' is not an entry; write a word, a tab"),
        ("[en-us]\na\tˈeɪ\n\na\tə\n", "line 4: 'a' is already in line 2; keep one of them"),
        ("[en-us]\nx\tq ø\n", "line 2: 'x': 'q' does not begin with a phoneme of en-us; use ɑ æ"),
        ("[en-us]\nx\tˈˌ\n", "line 2: 'x': no phonemes"),
        (f"[en-us]\n{'x' * 200}\ta\n", "line 2: a word of 200 characters; use at most 100"),
    ],
)
def test_a_fault_is_named_by_file_and_line(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "bad.txt"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(SonorantError, match=f"^{file}: {message}"):
        load_with_lexicon("gruut", "en-us", str(file))


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(SonorantError, match=r"gone\.txt: cannot be read"):
        read_lexicon(tmp_path / "gone.txt", "en-us")
    (tmp_path / "latin.txt").write_bytes("[de-de]\nM\xfcll  m".encode("latin-1"))
    with pytest.raises(SonorantError, match=r"latin\.txt: not UTF-8 \(byte 9\)"):
        read_lexicon(tmp_path / "latin.txt", "de-de")
