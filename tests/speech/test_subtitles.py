import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sonorant.errors import SonorantError
from sonorant.speech.subtitles import LONGEST_CUE, clock, cues, timings_file
from sonorant.speech.word_times import Timing, WordTiming


def spoken(*sentences: str, start: float = 0.0) -> list[WordTiming]:
    """Words of 0.1 s, with 0.5 s between sentences."""
    found, first = [], 0
    for sentence in sentences:
        written = sentence.split()
        for place, word in enumerate(written, 1):
            text = word.strip(',.?"')
            phonemes = (Timing("ə", start, start + 0.04), Timing("n", start + 0.04, start + 0.1))
            last = first + len(text)
            found.append(WordTiming(text, start, start + 0.1, first, last, word, phonemes, place == len(written)))
            start, first = start + 0.1, first + len(word) + 1
        start += 0.5
    return found


def written(path: Path, words: list[WordTiming], at_once: int = 1000) -> str:
    with timings_file(path) as file:
        for place in range(0, len(words), at_once):
            file.add(words[place : place + at_once])
    return path.read_text(encoding="utf-8")


def test_json_holds_words_and_phonemes(tmp_path: Path) -> None:
    text = written(tmp_path / "a.json", spoken("Où est-il,", "ici."))
    assert "Où" in text
    first, *_, last = json.loads(text)["words"]
    phonemes = [{"symbol": "ə", "start": 0.0, "end": 0.04}, {"symbol": "n", "start": 0.04, "end": 0.1}]
    assert first == {"text": "Où", "start": 0.0, "end": 0.1, "first": 0, "last": 2, "phonemes": phonemes}
    assert (last["text"], last["start"]) == ("ici", 0.7)
    assert json.loads(written(tmp_path / "none.json", [])) == {"words": []}


def test_srt_and_vtt_are_as_their_formats_have_them(tmp_path: Path) -> None:
    words = spoken('He said, "2 < 3 & 4 --> 5."', "Yes.", start=3661.5)
    srt, vtt = written(tmp_path / "a.srt", words), written(tmp_path / "a.VTT", words)
    assert srt == (
        "1\n01:01:01,500 --> 01:01:01,700\nHe said,\n\n"
        '2\n01:01:01,700 --> 01:01:02,400\n"2 < 3 & 4 --> 5."\n\n'
        "3\n01:01:02,900 --> 01:01:03,000\nYes.\n\n"
    )
    assert vtt.startswith("WEBVTT\n\n1\n01:01:01.500 --> ")
    assert "2 &lt; 3 &amp; 4 --&gt; 5." in vtt


def test_cues_do_not_depend_on_how_words_arrive(tmp_path: Path) -> None:
    words = spoken("one two three, four five six seven eight nine ten,", "eleven.", "twelve thirteen.")
    assert written(tmp_path / "a.srt", words, 3) == written(tmp_path / "b.srt", words)


@given(st.lists(st.lists(st.sampled_from(["a", "b,", "c"]), min_size=1, max_size=40), max_size=5))
def test_every_word_is_in_one_cue_of_few_words_and_none_stands_alone_without_need(texts: list[list[str]]) -> None:
    for text in texts:
        words = spoken(" ".join(text))
        found = list(cues(words))
        assert [word for cue in found for word in cue] == words
        assert all(0 < len(cue) <= LONGEST_CUE for cue in found)
        if len(words) > LONGEST_CUE and "b," not in text:
            assert min(map(len, found)) >= LONGEST_CUE // 2


def test_cues_follow_each_other_and_last(tmp_path: Path) -> None:
    words = [WordTiming(text, 1.0, 1.0, 0, 1, text, (), True) for text in "ab"]  # zero length
    first, second = "00:00:01,000 --> 00:00:01,001", "00:00:01,001 --> 00:00:01,002"
    assert written(tmp_path / "a.srt", words) == f"1\n{first}\na\n\n2\n{second}\nb\n\n"


def test_hours_grow_and_round() -> None:
    assert (clock(0, "."), clock(359_999_999, ","), clock(360_000_000, ".")) == (
        "00:00:00.000",
        "99:59:59,999",
        "100:00:00.000",
    )


@pytest.mark.parametrize("name", ["words.txt", "words", "folder.vtt"])
def test_a_name_that_will_not_do_is_refused_and_an_error_leaves_no_file(name: str, tmp_path: Path) -> None:
    (tmp_path / "folder.vtt").mkdir()
    with pytest.raises(SonorantError, match=r"\.json, \.srt, \.vtt|is a folder"), timings_file(tmp_path / name):
        pass
    with pytest.raises(ZeroDivisionError), timings_file(tmp_path / "a.srt") as file:
        file.add(spoken("Hello there."))
        raise ZeroDivisionError
    assert [path.name for path in tmp_path.iterdir()] == ["folder.vtt"]
