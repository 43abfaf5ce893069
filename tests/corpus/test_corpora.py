import errno
import importlib.util
import os
import shutil
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import soundfile

from sonorant.audio.wav import read_audio
from sonorant.corpus.importers import CorpusConfig, import_corpus
from sonorant.corpus.manifest import Defect, Utterance, read_manifest
from sonorant.errors import SonorantError
from sonorant.files import sha256_file
from tests.support.folders import contents

Murmur = Callable[..., np.ndarray]


def config(kind: str, **changes: object) -> CorpusConfig:
    return CorpusConfig(kind=kind, path="unused", **changes)  # type: ignore[arg-type]


def imported(source: Path, out: Path, settings: CorpusConfig) -> list[Utterance]:
    import_corpus(source, out, settings)
    return read_manifest(out / "manifest.jsonl")


def lying(file: Path, **fields: str) -> Utterance:
    return Utterance(**{"audio": str(file), "language": "en-us", "sha256": sha256_file(file)} | fields)  # type: ignore[arg-type]


def defects(utterances: list[Utterance]) -> dict[str, str | None]:
    return {utterance.id: utterance.defect for utterance in utterances}


def ljspeech_folder(folder: Path, lines: bytes, wavs: dict[str, np.ndarray]) -> Path:
    (folder / "wavs").mkdir(parents=True)
    (folder / "metadata.csv").write_bytes(lines)
    for name, samples in wavs.items():
        soundfile.write(folder / "wavs" / name, samples, 16000)
    return folder


def test_a_folder_for_each_speaker_in_whatever_layout(tmp_path: Path, murmur: Murmur) -> None:
    ljspeech_folder(tmp_path / "in/ben", b"a|One.|One.\nb|Two.|Two.\n", {"a.wav": murmur(1, 1)})
    (tmp_path / "in/anna m").mkdir()
    soundfile.write(tmp_path / "in/anna m/a.wav", murmur(1, 2), 16000)
    (tmp_path / "in/anna m/a.txt").write_text("One.")
    (tmp_path / "in/.hidden").mkdir()
    found = imported(tmp_path / "in", tmp_path / "out", config("speakers"))
    assert [(each.id, each.speaker, each.audio) for each in found] == [
        ("anna m-a", "anna m", f"{tmp_path}/in/anna m/a.wav"),
        ("ben-a", "ben", f"{tmp_path}/in/ben/wavs/a.wav"),
        ("ben-b", "ben", f"{tmp_path}/in/ben/wavs/b.wav"),
    ]
    assert [(tmp_path / "out" / str(each.audio)).is_file() for each in found] == [True, True, False]
    assert not list((tmp_path / "out").glob("*/manifest.jsonl")), "one manifest is there to be read"


def test_a_folder_of_prompts_is_spoken_by_the_voice_of_flite_that_it_is_named_after(tmp_path: Path) -> None:
    if shutil.which("flite") is None:
        pytest.skip("flite is not installed")
    for name, prompts in (("slt", "One two.\n\nThree four.\n"), ("awb", "Five six.\n")):
        (tmp_path / "in" / name).mkdir(parents=True)
        (tmp_path / "in" / name / "prompts.txt").write_text(prompts)
    found = imported(tmp_path / "in", tmp_path / "out", config("speakers"))
    assert [(each.speaker, each.text) for each in found] == [
        ("awb", "Five six."),
        ("slt", "One two."),
        ("slt", "Three four."),
    ]
    assert all(read_audio(tmp_path / "out" / str(each.audio))[1] == 16000 for each in found)
    (tmp_path / "in/awb").rename(tmp_path / "in/anna")
    with pytest.raises(SonorantError, match=r"anna/prompts.txt: .* after the flite voice .*: rms, slt, awb, kal16"):
        imported(tmp_path / "in", tmp_path / "again", config("speakers"))


def test_folders_of_speakers_that_hold_nothing_are_named(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    with pytest.raises(SonorantError, match=r"in: contains no folders; kind speakers requires one per speaker"):
        imported(tmp_path / "in", tmp_path / "out", config("speakers"))
    (tmp_path / "in/ben").mkdir()
    with pytest.raises(SonorantError, match=r"in/ben: no recording has a text of the same name"):
        imported(tmp_path / "in", tmp_path / "out", config("speakers"))
    with pytest.raises(ValueError, match="'speaker' must be null for kind 'speakers'"):
        config("speakers", speaker="anna")


def test_ljspeech_layout(tmp_path: Path, murmur: Murmur) -> None:
    lines = (
        b'\xef\xbb\xbfa|Mr. 1, "quoted"|Mister one, "quoted"\r\nb|Only plain.|\r\n\r\n'
        + "ü|Fünf\u2028Äpfel, «so».|Fünf\u2028Äpfel, «so».\n".encode()
    )
    wavs = {"a.wav": murmur(1, 1), "b.flac": murmur(1, 2), "ü.ogg": murmur(1, 3)}
    folder = ljspeech_folder(tmp_path / "in", lines, wavs)
    assert imported(folder, tmp_path / "out", config("ljspeech", speaker="anna")) == [
        lying(folder / f"wavs/{id}.{form}", id=id, text=text, speaker="anna")
        for id, form, text in (
            ("a", "wav", 'Mister one, "quoted"'),
            ("b", "flac", "Only plain."),
            ("ü", "ogg", "Fünf Äpfel, «so»."),
        )
    ]


def test_ljspeech_rows_keep_their_defects(tmp_path: Path, murmur: Murmur) -> None:
    lines = (
        b"good|Fine text.|Fine text.\nshort|one\nlong|a|b|c\nlatin1|caf\xe9|caf\xe9\n"
        b"../../secret|Not yours.|Not yours.\nlink|Nor this.|Nor this.\nabsent|Gone.|Gone.\nnul\0|Odd.|Odd.\n"
    )
    folder = ljspeech_folder(tmp_path / "a/in", lines, {"good.wav": murmur(1, 1), "latin1.wav": murmur(1, 2)})
    soundfile.write(tmp_path / "a/secret.wav", murmur(1, 3), 16000)
    (folder / "wavs/link.wav").symlink_to(tmp_path / "a/secret.wav")
    utterances = imported(folder, tmp_path / "out", config("ljspeech"))
    assert defects(utterances) == {
        "good": None,
        "short": Defect.WRONG_COLUMNS,
        "long": Defect.WRONG_COLUMNS,
        "latin1": Defect.NOT_UTF8,
        "../../secret": Defect.LEAVES_FOLDER,
        "link": Defect.LEAVES_FOLDER,
        "absent": None,  # prepare reports it missing
        "nul\0": Defect.LEAVES_FOLDER,
    }
    read = {utterance.id for utterance in utterances if utterance.sha256}
    assert read == {"good"}, "what lies outside of the corpus is not even read"


def test_ljspeech_with_two_columns(tmp_path: Path, murmur: Murmur) -> None:
    folder = ljspeech_folder(tmp_path / "in", b"a|One.\nb|Two.\nc|Three.|Three.\n", {"a.wav": murmur(1, 1)})
    (folder / "wavs/a.txt").write_text("Other words.")
    utterances = imported(folder, tmp_path / "out", config("auto"))  # preferred to texts next to recordings
    assert [u.text for u in utterances][:2] == ["One.", "Two."]
    assert defects(utterances) == {"a": None, "b": None, "c": Defect.WRONG_COLUMNS}


def pairs_folder(folder: Path, texts: dict[str, bytes], recordings: dict[str, np.ndarray]) -> Path:
    for name in (*texts, *recordings):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_bytes(text)
    for name, samples in recordings.items():
        soundfile.write(folder / name, samples, 48000)
    return folder


def test_a_text_beside_each_recording(tmp_path: Path, murmur: Murmur) -> None:
    """The layout of rhasspy/dataset-voice-kathleen: data/<id>.wav in stereo, data/<id>.txt."""
    texts = {
        "data/a0001_1592748574.txt": b"Author of it, Philip, etc.",
        "data/a0002_1592748530.txt": b"\xef\xbb\xbfNot at this\r\n particular case.\n",
        "LICENSE": b"CC0",
        "VERSION": b"1.0\n",
        "cmuarctic.data": b"( a0001 x )\n",
        "README.md": b"# Voice\n",
        ".git/info.txt": b"no text",
    }
    sounds = {
        "data/a0001_1592748574.wav": np.stack([murmur(1, 1, 48000)] * 2, axis=1),
        "data/a0002_1592748530.FLAC": murmur(1, 2, 48000),
    }
    folder = pairs_folder(tmp_path / "in", texts, sounds)
    assert imported(folder, tmp_path / "out", config("auto", speaker="kathleen")) == [
        lying(folder / audio, id=id, text=text, speaker="kathleen")
        for id, audio, text in (
            ("data-a0001_1592748574", "data/a0001_1592748574.wav", "Author of it, Philip, etc."),
            ("data-a0002_1592748530", "data/a0002_1592748530.FLAC", "Not at this particular case."),
        )
    ]


def test_a_bad_pair_spoils_only_itself(tmp_path: Path, murmur: Murmur) -> None:
    texts = {"good.txt": b"Fine.", "latin1.txt": b"caf\xe9", "alone.txt": b"No recording.", "empty.txt": b""}
    sounds = {f"{name}.wav": murmur(1, n) for n, name in enumerate(["good", "latin1", "mute", "empty", "linked"])}
    folder = pairs_folder(tmp_path / "in", texts, sounds)
    (tmp_path / "secret.txt").write_text("Not yours.")
    (folder / "linked.txt").symlink_to(tmp_path / "secret.txt")
    utterances = imported(folder, tmp_path / "out", config("texts"))
    assert defects(utterances) == {
        "good": None,
        "latin1": Defect.NOT_UTF8,
        "mute": None,  # prepare reports this and the next as empty
        "empty": None,
        "linked": Defect.LEAVES_FOLDER,
        "alone": None,  # prepare reports it missing
    }
    assert {u.id for u in utterances if not u.text} == {"mute", "empty", "linked"}
    assert {u.id for u in utterances if u.sha256} == {"good", "mute", "empty"}


def test_a_folder_without_pairs_is_refused(tmp_path: Path, murmur: Murmur) -> None:
    folder = pairs_folder(tmp_path / "in", {"a.txt": b"One."}, {"b.wav": murmur(1, 1)})
    with pytest.raises(SonorantError, match=r"in: no recording has a text of the same name next to it"):
        import_corpus(folder, tmp_path / "out", config("texts"))
    with pytest.raises(SonorantError, match=r"a\.txt: not a folder; kind texts requires a folder of recordings"):
        import_corpus(folder / "a.txt", tmp_path / "out", config("texts"))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("kind", ["texts", "long"])
def test_a_folder_that_cannot_be_listed_is_one_line(
    tmp_path: Path, murmur: Murmur, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    folder = pairs_folder(tmp_path / "in", {"a.txt": b"One.", "b/c.txt": b"Two."}, {"a.wav": murmur(1, 1)})
    scandir = os.scandir

    def refuse(path: str) -> Any:
        if str(path).endswith("in/b"):
            raise OSError(errno.ESTALE, "Stale file handle", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(SonorantError, match=r"in/b: cannot be read \(Stale file handle\); [^\n]+$"):
        import_corpus(folder, tmp_path / "out", config(kind))
    assert not (tmp_path / "out").exists()


TABLES = {
    "in.csv": 'audio,text,speaker,language,mood\nx/1.wav,"Hello, ""you"".",bob,de-de,good\ny/1.wav,Bye.,,,\n',
    "semicolons.csv": 'text;audio;language;speaker\n"Hello, ""you"".";x/1.wav;de-de;bob\nBye.;y/1.wav;;\n',
    "in.tsv": 'text\taudio\tlanguage\tspeaker\n"Hello, ""you""."\tx/1.wav\tde-de\tbob\nBye.\ty/1.wav\t\t\n',
    "in.jsonl": '{"audio": "x/1.wav", "text": "Hello, \\"you\\".", "speaker": "bob", "language": "de-de"}\n\n'
    '{"text": "Bye.", "audio": "y/1.wav", "speaker": null, "mood": 3}\n',
    "index.csv": ',audio,text,speaker,language\n0,x/1.wav,"Hello, ""you"".",bob,de-de\n1,y/1.wav,Bye.,,\n',
}
TABLES["mac.csv"] = TABLES["in.csv"].replace("\n", "\r")
TABLES["utf-16.tsv"] = TABLES["in.tsv"]


@pytest.mark.parametrize("name", TABLES)
def test_tables(tmp_path: Path, murmur: Murmur, name: str) -> None:
    for number, folder in enumerate("xy"):
        (tmp_path / folder).mkdir()
        soundfile.write(tmp_path / folder / "1.wav", murmur(1, number), 16000)
    (tmp_path / name).write_text(TABLES[name], encoding="utf-16" if name.startswith("utf-16") else "utf-8")
    utterances = imported(tmp_path / name, tmp_path / "out", config("table", language="en-gb"))
    assert utterances == [
        lying(tmp_path / "x/1.wav", id="x-1", text='Hello, "you".', speaker="bob", language="de-de"),
        lying(tmp_path / "y/1.wav", id="y-1", text="Bye.", speaker="speaker", language="en-gb"),
    ]


BAD_ROWS: dict[str, list[tuple[bytes, str, Defect | None]]] = {
    "in.csv": [
        (b"few,a.wav", "few", Defect.WRONG_COLUMNS),
        (b"many,a.wav,b,c", "many", Defect.WRONG_COLUMNS),
        (b"bytes,a.wav,caf\xe9", "bytes", Defect.NOT_UTF8),
        (b"out,../a.wav,Hi.", "out", Defect.LEAVES_FOLDER),
        (b"none,,Hi.", "none", Defect.MISSING_AUDIO),
        (b",a/b.wav,Hi.", "a-b", None),
        (b'swallowed,"b.wav,a.wav","Hi,a.wav"', "swallowed", Defect.WRONG_COLUMNS),
        (b'named,a.wav,"He sang, and song.wav followed"', "named", None),
    ],
    "in.jsonl": [
        (b'{"id": 7, "audio": "a.wav"}', "7", Defect.WRONG_COLUMNS),
        (b'{"id": "bytes", "audio": "a.wav", "text": "caf\xe9"}', "bytes", Defect.NOT_UTF8),
        (b'{"id": "lone", "audio": "a.wav", "text": "\\ud800"}', "lone", Defect.NOT_UTF8),
        (b'{"audio": ', "row-4", Defect.UNREADABLE_ROW),
        (b"[1]", "row-5", Defect.UNREADABLE_ROW),
        (b'{"id": "out", "audio": "/a.wav", "text": "Hi."}', "out", Defect.LEAVES_FOLDER),
        (b'{"id": "list", "audio": "a.wav", "text": ["Not", "at"]}', "list", Defect.NOT_TEXT),
        (b'{"id": {"a": 1}, "audio": "a.wav", "text": "Hi."}', "a", Defect.NOT_TEXT),
        (b"[" * 9999, "row-9", Defect.UNREADABLE_ROW),
        (b'{"id": 1.50, "audio": "a.wav", "text": 1984}', "1.50", None),
    ],
}


@pytest.mark.parametrize("name", BAD_ROWS)
def test_rows_of_a_table_keep_their_defects(tmp_path: Path, name: str) -> None:
    header = [b"id,audio,text"] if name == "in.csv" else []
    (tmp_path / name).write_bytes(b"\n".join([*header, *(row for row, _, _ in BAD_ROWS[name]), b""]))
    found = defects(imported(tmp_path / name, tmp_path / "out", config("table")))
    assert found == {id: defect for _, id, defect in BAD_ROWS[name]}


def test_a_quote_counts_only_where_it_closes_in_its_row(tmp_path: Path) -> None:
    texts = ['"Open, he said', "two", '"Not" at the end', 'it"s', '"Close, ""he"" said"', '"Open again', '"last']
    rows = "".join(f"bob\tcommon_{number}.mp3\t{text}\t\n" for number, text in enumerate(texts))
    (tmp_path / "in.tsv").write_text(f"speaker\taudio\ttext\tmood\n{rows}")
    found = imported(tmp_path / "in.tsv", tmp_path / "out", config("table"))
    texts[4] = 'Close, "he" said'
    assert [(u.text, u.defect) for u in found] == [(text, None) for text in texts]


def test_a_third_column_of_seconds_is_no_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = b"a|It took 2 h.|3.40\rb|Two.|\rc|1984|1984\rd|In 1984.|In nineteen eighty-four."
    folder = ljspeech_folder(tmp_path / "in", lines, {})
    utterances = imported(folder, tmp_path / "out", config("ljspeech"))
    assert [u.text for u in utterances] == ["It took 2 h.", "Two.", "1984", "In nineteen eighty-four."]
    assert "the third column of 1 rows is a number such as 3.40, not a text" in capsys.readouterr().err


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_a_name_is_found_composed_or_decomposed(tmp_path: Path, murmur: Murmur, form: Literal["NFC", "NFD"]) -> None:
    listed, folder, name = "Ä/für", unicodedata.normalize(form, "Ä"), unicodedata.normalize(form, "für")
    pairs_folder(tmp_path / "wavs", {f"{folder}/für.txt": b"One."}, {f"{folder}/{name}.wav": murmur(1, 1)})
    (tmp_path / "metadata.csv").write_text(f"{listed}|One.|\n")
    (tmp_path / "in.csv").write_text(f"audio,text\nwavs/{listed}.wav,One.\n")
    for source, kind in (("in.csv", "table"), (".", "ljspeech"), ("wavs", "texts")):
        (found,) = imported(tmp_path / source, tmp_path / f"out {kind}", config(kind))
        assert found.text == "One." and found.sha256 and Path(str(found.audio)).is_file(), kind


def test_paths_that_differ_in_a_slash_are_two_utterances(tmp_path: Path, murmur: Murmur) -> None:
    names = ["a-b-c", "a-b/c", "a/b-c"]
    pairs_folder(tmp_path / "in", {f"{n}.txt": b"One." for n in names}, {f"{n}.wav": murmur(1, 1) for n in names})
    (tmp_path / "in/in.csv").write_text("audio,text\n" + "".join(f"{name}.wav,One.\n" for name in names))
    for source, kind in (("in/in.csv", "table"), ("in", "texts"), ("in", "speakers")):
        ids = [u.id for u in imported(tmp_path / source, tmp_path / f"out {kind}", config(kind))]
        assert "a-b-c" in ids and len(set(ids)) == len(ids) == {"speakers": 2}.get(kind, 3)


@pytest.mark.parametrize(
    ("kind", "name", "content", "named"),
    [
        ("ljspeech", "nowhere", None, "nowhere"),
        ("ljspeech", "other/list.txt", "a|b|c\n", r"metadata\.csv: no such file; kind ljspeech requires"),
        ("table", "in.csv", "file,words\na,b\n", "audio and text"),
        ("table", "in.csv", 'audio,text\na.wav,"open\n' + "x" * 200_000, "row 2"),
        ("table", "in.csv", 'audio,text\na.wav,"open\n\nand, closed"\nb.wav,x\n', "row 2: a quote does not close"),
        ("table", "in.csv", 'text,audio\n"open\nand closed",a.wav\nx,b.wav\n', "row 2: a quote does not close"),
        ("table", "in.csv", "audio,text,text\na.wav,b,c\n", "names the column text twice"),
        ("table", "in.csv", "a\0u\0d\0i\0o\0,\0t\0e\0x\0t\0", "UTF-16.*: iconv -f UTF-16LE -t UTF-8"),
        ("table", "in.xlsx", "x", r"\.xlsx"),
        ("demo", "prompts/prompts.txt", "One.\n", "fewer than corpus.sentences"),
        ("demo", "prompts/prompts.txt", "One|two.\n" * 9, r"prompts\.txt:1"),
    ],
)
def test_what_is_no_corpus_is_one_line(tmp_path: Path, kind: str, name: str, content: str | None, named: str) -> None:
    source = tmp_path / name
    if content is not None:
        source.parent.mkdir(exist_ok=True)
        source.write_text(content, encoding="utf-8")
    if kind != "table" and content is not None:
        source = source.parent
    with pytest.raises(SonorantError, match=named) as caught:
        import_corpus(source, tmp_path / "out", config(kind, sentences=5))
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("changes", [{"kind": "lhotse"}, {"recipe": "vctk"}, {"voice": "nobody"}, {"language": " "}])
def test_contradictions_are_refused(changes: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"kind|recipe|voice|language"):
        config(**({"kind": "ljspeech"} | changes))  # type: ignore[arg-type]


@pytest.mark.skipif(shutil.which("flite") is None, reason="flite is not installed")
def test_flite_speaks_the_demo_the_same_way_twice(tmp_path: Path) -> None:
    prompts = ["-o is no option here.", "", 'The second prompt, "quoted".', "'Third' & last; $5!", "Unused."]
    (tmp_path / "prompts.txt").write_text("\n".join(prompts))
    settings = config("demo", sentences=3)
    utterances = imported(tmp_path, tmp_path / "one", settings)
    assert [u.id for u in utterances] == ["demo-0001", "demo-0002", "demo-0003"]
    for utterance in utterances:
        samples, rate = read_audio(tmp_path / "one" / str(utterance.audio))
        assert rate == 16000 < len(samples) and np.abs(samples).max() > 0.1
    imported(tmp_path, tmp_path / "two", settings)
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    again = imported(tmp_path / "one", tmp_path / "three", config("ljspeech"))
    assert [(u.id, u.text) for u in again] == [(u.id, u.text) for u in utterances]


def test_without_flite_one_line_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "prompts.txt").write_text("One.\n")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SonorantError, match="apt install flite"):
        import_corpus(tmp_path, tmp_path / "out", config("demo", sentences=1))


def test_a_lhotse_recipe_gives_what_the_layout_gives(tmp_path: Path, ljspeech_mini: Path) -> None:
    pytest.importorskip("lhotse", reason="the extra 'corpora' (lhotse) is not installed")
    shutil.copytree(ljspeech_mini, tmp_path / "LJSpeech-1.1")
    by_recipe = imported(tmp_path / "LJSpeech-1.1", tmp_path / "a", config("lhotse", recipe="ljspeech"))
    by_layout = imported(ljspeech_mini, tmp_path / "b", config("ljspeech"))
    assert [(u.id, u.sha256, u.language) for u in by_recipe] == [(u.id, u.sha256, u.language) for u in by_layout]
    assert {Path(str(u.audio)).parent for u in by_recipe} == {tmp_path / "LJSpeech-1.1/wavs"}


def test_lhotse_segments_are_cut_out_of_their_recording(tmp_path: Path, murmur: Murmur) -> None:
    pytest.importorskip("lhotse", reason="the extra 'corpora' (lhotse) is not installed")
    from lhotse import Recording, RecordingSet, SupervisionSegment, SupervisionSet

    from sonorant.corpus.importers import lhotse as importer

    long = murmur(4, 1)
    soundfile.write(tmp_path / "long.wav", long, 16000, subtype="PCM_16")
    recordings = RecordingSet.from_recordings([Recording.from_file(tmp_path / "long.wav", recording_id="long")])
    segment = SupervisionSegment(
        id="long/1", recording_id="long", start=1.0, duration=1.5, text="A part.", speaker="eve", language="EN"
    )
    manifests = {"train": {"recordings": recordings, "supervisions": SupervisionSet([segment])}}
    ((held, segments),) = importer._parts(manifests)
    settings = config("lhotse", recipe="vctk")
    utterance = importer._utterance(held, next(iter(segments)), tmp_path, tmp_path / "out", settings)
    assert str(utterance.audio).startswith("audio/long_1-")
    assert (utterance.speaker, utterance.language) == ("eve", "en-us")
    samples, _ = read_audio(tmp_path / "out" / str(utterance.audio))
    np.testing.assert_allclose(samples, long[16000:40000], atol=2**-14)


def test_without_lhotse_one_line_says_what_to_install(tmp_path: Path) -> None:
    installed = importlib.util.find_spec("lhotse") is not None
    with pytest.raises(SonorantError, match="no recipe 'nonesuch'" if installed else r"\[corpora\]"):
        import_corpus(tmp_path, tmp_path / "out", config("lhotse", recipe="nonesuch"))
