import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from sonorant.audio.arrays import Floats
from sonorant.audio.wav import read_audio
from sonorant.corpus.importers import CorpusConfig, import_corpus
from sonorant.corpus.manifest import Utterance, read_manifest
from sonorant.corpus.preparation import PrepareConfig, prepare
from sonorant.corpus.sound import read_sound
from sonorant.errors import SonorantError
from sonorant.extras.long import listening, stretches
from sonorant.extras.long import long_recording as recording
from sonorant.extras.long.cutting import MARGIN
from sonorant.files import read_json, read_jsonl, sha256_file
from sonorant.text.written_words import plain_words
from tests.extras.long.spoken import RATE, SENTENCES, Part, write_chapter
from tests.support.conditions import UNCONDITIONED

LATE = 0.2
"""Maximum error of an edge in seconds."""


def cut_apart(source: Path, out: Path, cache: Path | None = None, **changes: Any) -> list[Utterance]:
    import_corpus(source, out, CorpusConfig(kind="long", path="unused", **changes), cache=cache)
    return read_manifest(out / "manifest.jsonl")


def text_of(*numbers: int) -> str:
    return " ".join(SENTENCES[number] for number in numbers) + "\n"


def told(utterances: list[Utterance]) -> list[str]:
    return [utterance.text for utterance in utterances]


def assert_edges(utterances: list[Utterance], parts: list[Part]) -> None:
    for one in utterances:
        start, end = (one.start or 0.0) + MARGIN, (one.end or 0.0) - MARGIN
        assert min(abs(part.start - start) for part in parts) < LATE, one
        assert min(abs(part.end - end) for part in parts) < LATE, one


def test_each_sentence_is_found_also_where_one_was_skipped_said_again_or_added(
    speech: list[Floats], tmp_path: Path
) -> None:
    source = tmp_path / "in"
    parts = write_chapter(source / "book/one.wav", speech, [0, 1, 1, 7, 3, 4, 5])  # without 2, with 7
    (source / "book/one.txt").write_text(text_of(0, 1, 2, 3, 4, 5), encoding="utf-8")
    utterances = cut_apart(source, tmp_path / "out", speaker="anna")
    assert told(utterances) == [SENTENCES[number] for number in (0, 1, 1, 3, 4, 5)]
    assert_edges(utterances, [part for part in parts if part.number != 7])
    found = (str(source / "book/one.wav"), sha256_file(source / "book/one.wav"), "anna", None)
    assert {(one.audio, one.sha256, one.speaker, one.confidence) for one in utterances} == {found}
    assert utterances[0].id == "book-one-00001"
    speaking, writing = read_jsonl(tmp_path / "out/unplaced.jsonl")
    [added] = [part for part in parts if part.number == 7]
    assert abs(speaking["start"] - added.start) < 0.3 and abs(speaking["end"] - added.end) < 0.3
    assert (writing["words"], writing["text"]) == (len(plain_words(SENTENCES[2])), SENTENCES[2])
    total = read_json(tmp_path / "out/summary.json")["all"]
    assert (total["utterances"], total["unheard_words"]) == (6, writing["words"])
    assert total["untold_seconds"] == pytest.approx(speaking["end"] - speaking["start"], abs=0.01)


def test_an_utterance_is_heard_as_its_stretch_of_the_recording(speech: list[Floats], tmp_path: Path) -> None:
    write_chapter(tmp_path / "in/a.mp3", speech, [1, 2, 4])
    (tmp_path / "in/a.txt").write_text("\ufeff" + text_of(1, 2, 4), encoding="utf-8")
    utterances = cut_apart(tmp_path / "in", tmp_path / "out")
    assert told(utterances) == [SENTENCES[number] for number in (1, 2, 4)]
    whole, rate = read_audio(tmp_path / "in/a.mp3")
    for one in utterances:
        assert one.audio == "audio/a.flac"
        samples, _ = read_sound(tmp_path / "out", one)
        expected = whole[round((one.start or 0) * rate) : round((one.end or 0) * rate)]
        np.testing.assert_allclose(samples, expected, atol=2**-14)


def test_without_a_text_a_recogniser_says_what_it_heard_and_how_sure_it_is(
    speech: list[Floats], tmp_path: Path
) -> None:
    parts = write_chapter(tmp_path / "in/a.flac", speech, [1, 2, 7])
    utterances = cut_apart(tmp_path / "in", tmp_path / "out")
    assert_edges([one for one in utterances if one.text], parts)
    heard = " ".join(told(utterances)).split()
    assert len(set(heard) & set(plain_words(text_of(1, 2, 7)))) >= 10
    assert all(one.confidence is not None and 0 < one.confidence <= 1 for one in utterances)


def test_what_belongs_to_nothing_is_listed_also_on_the_page_of_prepare(
    speech: list[Floats], tmp_path: Path, prepare_config: PrepareConfig
) -> None:
    source = tmp_path / "in"
    write_chapter(source / "good.wav", speech, [1, 2])
    write_chapter(source / "empty.wav", speech, [3])
    soundfile.write(source / "silent.wav", 0.001 * np.random.default_rng(1).standard_normal(3 * RATE), RATE)
    for name, text in {"good": text_of(1, 2), "empty": " \n", "silent": text_of(5), "alone": text_of(4)}.items():
        (source / f"{name}.txt").write_text(text, encoding="utf-8")
    assert told(cut_apart(source, tmp_path / "out")) == [SENTENCES[1], SENTENCES[2]]
    rows = {(row["name"], row["why"]): row for row in read_jsonl(tmp_path / "out/unplaced.jsonl")}
    assert rows.keys() == {
        ("empty", "its text is empty"),
        ("silent", "no speech was found"),
        ("alone", "no recording has this name"),
    }
    assert rows["alone", "no recording has this name"]["words"] == len(plain_words(SENTENCES[4]))
    assert rows["empty", "its text is empty"]["end"] - rows["empty", "its text is empty"]["start"] > 1

    settings = {"validation": 0.0, "test": 0.0, "min_speaker_seconds": 0.0}
    prepare(
        tmp_path / "out", tmp_path / "prepared", replace(prepare_config, **settings), "gruut", condition=UNCONDITIONED
    )
    lost = read_json(tmp_path / "prepared/summary.json")["unplaced"]
    assert lost["words"] == len(plain_words(f"{SENTENCES[4]} {SENTENCES[5]}")) and lost["seconds"] > 1


PRINTED = "7\n\nTHE TOWER\n\nHOST: {}[1]\n8\n{}\n\n9\n\nHOST: {}\n\nIV\n\n{}\nHOST: {}\n"
CUE = "1\n00:00:01,000 --> 00:00:04,900\n{}\n\n"


def test_a_printed_text_is_read_without_what_nobody_says(speech: list[Floats], tmp_path: Path) -> None:
    source, read = tmp_path / "in", [SENTENCES[number] for number in (1, 2, 4, 5, 7)]
    write_chapter(source / "one.wav", speech, [1, 2, 4, 5, 7])
    write_chapter(source / "two.wav", speech, [1, 2])
    (source / "one.txt").write_text(PRINTED.format(*read).replace("climbed", "clim-\nbed"))
    (source / "two.srt").write_text("".join(CUE.format(sentence.upper()) for sentence in read[:2]))
    utterances = cut_apart(source, tmp_path / "out")
    assert told(utterances) == [*read, read[0].upper(), read[1].upper()]
    unheard = [row["text"] for row in read_jsonl(tmp_path / "out/unplaced.jsonl") if row["name"] == "one"]
    assert unheard == ["7", "THE TOWER", "HOST:", "[1] 8", "9", "HOST:", "IV", "HOST:"]


def test_another_text_places_nothing_and_says_so(speech: list[Floats], tmp_path: Path) -> None:
    write_chapter(tmp_path / "in/a.wav", speech, [1, 2])
    (tmp_path / "in/a.txt").write_text(text_of(5, 6), encoding="utf-8")
    with pytest.raises(SonorantError, match="no utterance could be cut from its recordings"):
        cut_apart(tmp_path / "in", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def files(folder: Path, **contents: bytes | str) -> Path:
    folder.mkdir()
    for name, content in contents.items():
        data = content.encode() if isinstance(content, str) else content
        (folder / name.replace("_", ".")).write_bytes(data)
    return folder


@pytest.fixture
def wav(tmp_path: Path) -> bytes:
    soundfile.write(tmp_path / "tone.wav", 0.1 * np.sin(np.arange(2 * RATE) / 5), RATE)
    return (tmp_path / "tone.wav").read_bytes()


def test_bad_input_is_one_line_and_nothing_is_written(tmp_path: Path, wav: bytes) -> None:
    for number, (contents, changes, message) in enumerate([
        ({"notes_md": "x"}, {}, "contains no recordings"),
        ({"a_wav": wav, "a_mp3": wav}, {}, r"a\.wav: a\.mp3 in the same folder has the same name"),
        ({"a_wav": wav, "a_txt": b"caf\xe9"}, {}, r"a\.txt: not UTF-8; save it as UTF-8"),
        ({"a_wav": wav[:-2000]}, {}, r"a\.wav: cannot be read as audio \(its data chunk should contain \d+ bytes"),
        ({"a_wav": b"no sound"}, {}, r"a\.wav: cannot be read as audio"),
        ({"a_wav": wav, "a_txt": "Hallo."}, {"language": "de-de"}, "corpus.recognizer: pocketsphinx supports English"),
        ({"a_wav": wav}, {}, "no speech was found"),
    ]):  # fmt: skip
        source = files(tmp_path / str(number), **contents)  # type: ignore[arg-type]
        with pytest.raises(SonorantError, match=message) as caught:
            cut_apart(source, tmp_path / "out", **changes)  # type: ignore[arg-type]
        assert "\n" not in str(caught.value) and not (tmp_path / "out").exists()


@pytest.mark.parametrize("changes", [{"shortest": 5.0, "longest": 5.0}, {"recognizer": "nobody"}])
def test_contradictions_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"shortest|name is 'nobody'"):
        CorpusConfig(kind="long", path="unused", **changes)


@pytest.mark.long
def test_only_what_is_new_is_worked_on_also_after_an_end_in_the_middle(
    speech: list[Floats], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, cache = tmp_path / "in", tmp_path / "cache"
    for name, order in {"a": [1, 2, 4], "b": [3, 6, 7]}.items():
        write_chapter(source / f"{name}.wav", speech, order)
        (source / f"{name}.txt").write_text(text_of(*order), encoding="utf-8")
    monkeypatch.setattr(recording, "_PASSAGE", 3.0)  # one sentence each
    listened: list[str] = []

    def counted(passage: listening.HeardPassage) -> Any:
        if len(listened) == ends_after:
            raise KeyboardInterrupt
        listened.append(passage.recording.name)
        return listen(passage)

    listen, ends_after = listening.listen, 4
    monkeypatch.setattr(recording, "listen", counted)
    with pytest.raises(KeyboardInterrupt):
        cut_apart(source, tmp_path / "out", cache)
    assert not (tmp_path / "out").exists() and listened == ["a.wav"] * 3 + ["b.wav"]
    listened, ends_after = [], 99
    first = cut_apart(source, tmp_path / "out", cache)
    assert listened == ["b.wav"] * 2
    listened.clear()
    assert cut_apart(source, tmp_path / "out", cache) == first and listened == []
    shutil.copy(source / "a.wav", source / "c.wav")  # the same content under another name
    shutil.copy(source / "a.txt", source / "c.txt")
    assert len(cut_apart(source, tmp_path / "out", cache)) == len(first) + 3 and listened == []
    (source / "a.txt").write_text(text_of(1, 2, 4) + "Another end.", encoding="utf-8")
    cut_apart(source, tmp_path / "out", cache)
    assert listened == ["a.wav"] * 3


def test_never_more_than_a_minute_is_read_at_once(
    speech: list[Floats], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`benchmarks/corpus/long_recordings.py` measures the memory."""
    write_chapter(tmp_path / "in/a.wav", speech, range(8), pause=6.0)
    (tmp_path / "in/a.txt").write_text(text_of(*range(8)), encoding="utf-8")
    lengths = []

    def measured(path: Path, rate: int, *, start: float, end: float) -> Any:
        samples, rate = read_audio(path, rate, start=start, end=end)
        lengths.append(len(samples) / rate)
        return samples, rate

    monkeypatch.setattr(stretches, "read_audio", measured)
    monkeypatch.setattr(listening, "read_audio", measured)
    utterances = cut_apart(tmp_path / "in", tmp_path / "out")
    assert told(utterances) == list(SENTENCES)
    assert soundfile.info(tmp_path / "in/a.wav").duration > 75 and max(lengths) < 64
