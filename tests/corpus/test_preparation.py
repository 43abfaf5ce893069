import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import soundfile

from sonorant.audio.conditioning import ConditionConfig
from sonorant.corpus.decisions import Decided
from sonorant.corpus.importers import CorpusConfig, import_corpus
from sonorant.corpus.manifest import Defect, Utterance, read_manifest, write_manifest
from sonorant.corpus.preparation import PrepareConfig, prepare
from sonorant.corpus.preparation.prepare import examine
from sonorant.corpus.preparation.transcripts import without_decoded_twice
from sonorant.corpus.splits import split_of, text_key
from sonorant.errors import SonorantError
from sonorant.files import read_json, read_jsonl, sha256_file
from tasks.params import load
from tests.support.folders import contents
from tests.support.imports import ROOT

Murmur = Callable[..., np.ndarray]
CONFIG = replace(load("prepare", PrepareConfig, ROOT / "params.yaml"), validation=0.0, test=0.0)
CONDITION = load("condition", ConditionConfig, ROOT / "params.yaml")
LENIENT = replace(CONFIG, max_rejected=1.0)
TEXT = "A sound sentence of some words."
SAID = f"|{TEXT}|{TEXT}".encode()
"""A row of metadata.csv without the id."""


def ljspeech(folder: Path, rows: dict[str, bytes], recordings: dict[str, np.ndarray]) -> Path:
    """Write an LJSpeech-like folder. A row's value is its line after the id; the default is `SAID`."""
    (folder / "wavs").mkdir(parents=True)
    ids = dict.fromkeys([*recordings, *rows])
    (folder / "metadata.csv").write_bytes(b"".join(id.encode() + rows.get(id, SAID) + b"\n" for id in ids))
    for id, samples in recordings.items():
        soundfile.write(folder / f"wavs/{id}.wav", samples, 16000, subtype="FLOAT")
    return folder


def prepared(
    source: Path, work: Path, config: PrepareConfig, workers: int = 1
) -> tuple[list[Utterance], dict[str, str]]:
    import_corpus(source, work / "corpus", CorpusConfig(kind="ljspeech", path=str(source)))
    prepare(work / "corpus", work / "prepared", config, "gruut", condition=CONDITION, processes=workers)
    rejected = read_jsonl(work / "prepared/rejected.jsonl")
    assert all(row.keys() == {"id", "file", "reason", "detail"} and row["detail"] for row in rejected)
    return read_manifest(work / "prepared/manifest.jsonl"), {row["id"]: row["reason"] for row in rejected}


def every_defect(folder: Path, murmur: Murmur) -> dict[str, Defect]:
    """Fill `folder` with two sound utterances and one per defect; return the expected reasons by id."""
    number = iter(range(100))

    def sound(seconds: float = 2.0) -> np.ndarray:
        return murmur(seconds, next(number))

    nan, infinite = sound(), sound()
    nan[500], infinite[900] = np.nan, -np.inf
    copied = sound()
    recordings = {
        "only-dots": copied, "good-1": sound(), "good-2": copied, "copy": copied,
        "nan": nan, "infinite": infinite, "short": sound(0.2),
        "no-samples": sound(0), "long": sound(12.5), "silent": np.zeros(32000), "hiss": sound() * 1e-3,
        "clipped": np.sign(sound()), "too-fast": sound(0.8), "too-slow": sound(11.0), "blank-text": sound(0.1),
        "laughing": sound(), "twice": sound(), "two-voices": np.stack([sound(), sound()], axis=1),
    }  # fmt: skip
    for id in ("empty-text", "not-utf8", "chinese", "columns", "truncated", "zero-bytes", "garbage"):
        recordings[id] = sound()
    rows = {
        "laughing": b"|Some [laughter] words.|", "twice": "|Some naÃ¯ve words.|".encode(),
        "empty-text": b"||", "blank-text": b"| |\t", "only-dots": b"|...|...", "columns": b"|one|two|three",
        "not-utf8": b"|na\xefve words, said|na\xefve words, said", "missing": SAID, "../../outside": SAID,
        "chinese": "|He said 你好 to all of us.|He said 你好 to all of us.".encode(),
    }  # fmt: skip
    ljspeech(folder, rows, recordings)
    with (folder / "metadata.csv").open("ab") as file:
        file.write(b"good-1|Another text for the same id.|Another text for the same id.\n")
    soundfile.write(folder.parent / "outside.wav", sound(), 16000)
    whole = (folder / "wavs/truncated.wav").read_bytes()
    (folder / "wavs/truncated.wav").write_bytes(whole[: len(whole) * 2 // 3])
    (folder / "wavs/zero-bytes.wav").write_bytes(b"")
    (folder / "wavs/garbage.wav").write_bytes(np.random.default_rng(1).bytes(5000))
    return {
        "empty-text": Defect.EMPTY_TEXT, "blank-text": Defect.EMPTY_TEXT, "only-dots": Defect.EMPTY_TEXT,
        "not-utf8": Defect.NOT_UTF8, "chinese": Defect.UNSPEAKABLE, "columns": Defect.WRONG_COLUMNS,
        "missing": Defect.MISSING_AUDIO, "../../outside": Defect.LEAVES_FOLDER, "copy": Defect.DUPLICATE_AUDIO,
        "nan": Defect.NOT_FINITE, "infinite": Defect.NOT_FINITE, "good-1": Defect.DUPLICATE_ID,
        "short": Defect.TOO_SHORT, "no-samples": Defect.TOO_SHORT, "long": Defect.TOO_LONG,
        "silent": Defect.SILENT, "hiss": Defect.SILENT, "clipped": Defect.CLIPPED,
        "too-fast": Defect.SPEAKING_RATE, "too-slow": Defect.SPEAKING_RATE, "truncated": Defect.TRUNCATED,
        "zero-bytes": Defect.EMPTY_FILE, "laughing": Defect.MARKED, "twice": Defect.DECODED_TWICE,
        "garbage": Defect.UNREADABLE, "two-voices": Defect.CHANNELS_DIFFER,
    }  # fmt: skip


def test_every_defect_is_named_and_nothing_else_is_rejected(tmp_path: Path, murmur: Murmur) -> None:
    expected = every_defect(tmp_path / "in/corpus", murmur)
    accepted, rejected = prepared(tmp_path / "in/corpus", tmp_path, LENIENT)
    assert rejected == expected
    # JSONL: test_corpora; people's: test_decisions; speakers: test_splits;
    # sound: test_sound
    of_sound = {Defect.NOISY, Defect.REVERBERANT, Defect.NARROW, Defect.HUM, Defect.RATED_BAD}
    elsewhere = {Defect.UNREADABLE_ROW, Defect.NOT_TEXT, Defect.DROPPED, Defect.NOT_TRAINED, Defect.FEW_SECONDS}
    assert set(expected.values()) == set(Defect) - elsewhere - of_sound
    assert [(u.id, u.text) for u in accepted] == [("good-1", TEXT), ("good-2", TEXT)]
    files = {row["id"]: row["file"] for row in read_jsonl(tmp_path / "prepared/rejected.jsonl")}
    assert files["nan"] == f"{tmp_path}/in/corpus/wavs/nan.wav"
    assert files["../../outside"] == "wavs/../../outside.wav"


def test_an_accepted_utterance_has_all_its_fields(tmp_path: Path, murmur: Murmur) -> None:
    source = ljspeech(tmp_path / "in", {"a": b"|It cost $12 in 1999.|"}, {"a": murmur(2.5, 1)})
    (utterance,), _ = prepared(source, tmp_path, CONFIG)
    assert utterance.text == "It cost $12 in 1999."
    assert "twelve dollars" in str(utterance.spoken)
    assert (utterance.seconds, utterance.sample_rate, utterance.defect) == (2.5, 16000, None)
    assert utterance.sha256 == sha256_file(source / "wavs/a.wav")
    assert utterance.split == split_of(text_key(utterance), validation=CONFIG.validation, test=CONFIG.test)


def test_the_result_does_not_depend_on_the_number_of_processes(tmp_path: Path, murmur: Murmur) -> None:
    every_defect(tmp_path / "in/corpus", murmur)
    for workers in (1, 2):
        prepared(tmp_path / "in/corpus", tmp_path / str(workers), LENIENT, workers)
    one, two = (contents(tmp_path / workers / "prepared") for workers in "12")
    assert one == two
    assert set(one) == {"manifest.jsonl", "rejected.jsonl", "summary.json", "summary.html"}


def test_a_copy_in_another_format_is_the_same_audio(tmp_path: Path, murmur: Murmur) -> None:
    source = ljspeech(tmp_path / "in", {"a": SAID, "b": SAID}, {})
    samples = np.round(murmur(2, 1) * 32767).astype(np.int16)
    soundfile.write(source / "wavs/a.wav", samples, 16000, subtype="PCM_16")
    soundfile.write(source / "wavs/b.flac", samples, 16000, subtype="PCM_16")
    assert prepared(source, tmp_path, LENIENT)[1] == {"b": Defect.DUPLICATE_AUDIO}


def test_too_many_rejections_fail_in_one_line_and_leave_the_report(tmp_path: Path, murmur: Murmur) -> None:
    recordings = {f"u{number}": murmur(2, number) for number in range(9)}
    source = ljspeech(tmp_path / "in", {"missing": SAID}, recordings)
    accepted, _ = prepared(source, tmp_path, replace(CONFIG, max_rejected=0.1))
    assert len(accepted) == 9
    before = (tmp_path / "prepared/manifest.jsonl").read_bytes()
    with pytest.raises(SonorantError, match=r"prepared\.rejected\.jsonl: 1 of 10 .*10\.0%.*1 missing audio") as caught:
        prepared(source, tmp_path, replace(CONFIG, max_rejected=0.09))
    assert "\n" not in str(caught.value)
    report = tmp_path / "prepared.rejected.jsonl"
    assert [row["id"] for row in read_jsonl(report)] == ["missing"]
    assert (tmp_path / "prepared/manifest.jsonl").read_bytes() == before
    prepared(source, tmp_path, replace(CONFIG, max_rejected=0.1))
    assert not report.exists()


@pytest.fixture
def corpus(tmp_path: Path, murmur: Murmur) -> Path:
    """Imported corpus of the one recording of `SOUND`, without a manifest."""
    (tmp_path / "corpus").mkdir()
    soundfile.write(tmp_path / "corpus/a.wav", murmur(2, 1), 16000)
    return tmp_path / "corpus"


SOUND = Utterance(id="a", audio="a.wav", text=TEXT, speaker="s", language="en-us")


def test_each_utterance_is_spoken_in_its_language(corpus: Path, tmp_path: Path) -> None:
    write_manifest(corpus / "manifest.jsonl", [SOUND, replace(SOUND, id="b", language="xx-yy")])
    with pytest.raises(SonorantError, match=r"utterance b: .*xx-yy"):
        prepare(corpus, tmp_path / "out", CONFIG, "gruut", condition=CONDITION)


@pytest.mark.parametrize("audio", ["../outside.wav", "/etc/hostname", None, "a" * 3000])
def test_a_manifest_by_hand_leads_nowhere_else(corpus: Path, tmp_path: Path, murmur: Murmur, audio: str | None) -> None:
    soundfile.write(tmp_path / "outside.wav", murmur(2, 2), 16000)
    write_manifest(corpus / "manifest.jsonl", [SOUND, replace(SOUND, id="b", audio=audio)])
    prepare(corpus, tmp_path / "out", LENIENT, "gruut", condition=CONDITION)
    (row,) = read_jsonl(tmp_path / "out/rejected.jsonl")
    assert (row["id"], row["reason"] in (Defect.LEAVES_FOLDER, Defect.MISSING_AUDIO)) == ("b", True)


def test_the_page_needs_nothing_beside_it_and_shows_no_markup_of_the_corpus(tmp_path: Path, murmur: Murmur) -> None:
    recordings = {"a": murmur(2, 1), "b": murmur(2, 2)}
    prepared(ljspeech(tmp_path / "in", {"<script>": b"|<b>bold</b>|<b>bold</b>"}, recordings), tmp_path, LENIENT)
    page = (tmp_path / "prepared/summary.html").read_text(encoding="utf-8")
    assert "&lt;script&gt;" in page
    for resource in ("<script", "<link", "<img", "@import", "src="):
        assert resource not in page
    summary = read_json(tmp_path / "prepared/summary.json")
    assert summary["utterances"] == sum(split["utterances"] for split in summary["splits"].values()) == 2
    assert summary["rejected"] == {"utterances": 1, "reasons": {"missing audio": 1}}
    assert summary["hours"] == pytest.approx(4 / 3600, abs=1e-4)
    assert summary["characters"] == dict(Counter(TEXT * 2))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("min_seconds", 13.0),
        ("min_characters_per_second", 31.0),
        ("validation", 1.0),
    ],
)
def test_contradictory_settings_are_refused(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=name):
        replace(CONFIG, **{name: value})


MARKS = {
    "Tom &amp;quot;the cat&#39;s&quot; friend": ("Tom \"the cat's\" friend", ["&amp;", "&#39;", "&quot;"]),
    "One line<br/>and <i>an</i>other.": ("One line and another.", ["<br/>", "<i>", "</i>"]),
    "He [Laughter] said <unk> {spoken_noise} (applause) it.": (
        "He said it.", ["[Laughter]", "<unk>", "{spoken_noise}", "(applause)"],
    ),
    "A <!-- bad --> word &lt;noise&gt; here": ("A word here", ["&lt;", "&gt;", "<!-- bad -->", "<noise>"]),
    "R&D; [the] music (in music), 3 < 4 *and* &": (None, []),
}  # fmt: skip


def test_marks_are_no_words(tmp_path: Path, murmur: Murmur) -> None:
    rows = {f"u{number}": f"|{text}|".encode() for number, text in enumerate(MARKS)}
    source = ljspeech(tmp_path / "in", rows, {id: murmur(2.5, number) for number, id in enumerate(rows)})
    wanted = {id: text or given for id, (given, (text, _)) in zip(rows, MARKS.items(), strict=True)}
    config = replace(LENIENT, min_characters_per_second=1.0)
    accepted, rejected = prepared(source, tmp_path / "removed", replace(config, marks="remove"))
    assert ({u.id: u.text for u in accepted}, rejected) == (wanted, {})
    accepted, rejected = prepared(source, tmp_path, config)
    assert {u.id: u.text for u in accepted} == {id: wanted[id] for id in ("u0", "u1", "u4")}
    assert rejected == {"u2": Defect.MARKED, "u3": Defect.MARKED}
    assert read_jsonl(tmp_path / "prepared/rejected.jsonl")[1]["detail"] == "<!-- bad --> <noise>"
    summary = read_json(tmp_path / "prepared/summary.json")
    assert summary["marks"] == Counter(mark for _, marks in MARKS.values() for mark in marks)
    assert "[Laughter]" in summary["warnings"][0]


@pytest.mark.parametrize("codec", ["cp1252", "latin1", "macintosh", "cp850"])
def test_texts_decoded_twice_are_refused_with_the_command_that_mends_them(
    corpus: Path, tmp_path: Path, codec: str
) -> None:
    texts = ["Voilà für dich.", "Grüße an Zoë.", "Plain words."]
    rows = [replace(SOUND, id=f"u{n}", text=text) for n, text in enumerate(texts)]
    twice = [replace(row, text=" ".join(row.text.encode().decode(codec).split())) for row in rows]
    write_manifest(corpus / "manifest.jsonl", twice)
    with pytest.raises(SonorantError, match=rf"2 of 2 texts .* for 'Voil.*: iconv -f UTF-8 -t {codec} old > new$"):
        prepare(corpus, tmp_path / "out", CONFIG, "gruut", condition=CONDITION)


TWICE = "fÃ¼r|Ã–l|GRÃœN|Å“uvre|Ã la carte|VoilÃ tout|donâ€™t|10Â°C|bÄ™dÄ…|ÐŸÑ€Ð¸"
ORDINARY = "A IRMÃ DELE|AMANHÃ…|l’école|C’était l’art|—Él vino|Strauß’ Walzer|LE CAFÉ’S|un café…»|Ä… na ja|für|при"


@pytest.mark.parametrize(("texts", "found"), [(TWICE, True), (ORDINARY, False)])
def test_a_text_decoded_twice_is_rejected_and_an_ordinary_one_is_not(texts: str, found: bool) -> None:
    for text in texts.split("|"):
        rows = [replace(SOUND, text=each) for each in (text, "Plain.", "Grüße", "déjà vu")]
        decided = without_decoded_twice(Decided(rows, [""] * 4, None, None))
        assert [row.defect for row in decided.utterances] == [Defect.DECODED_TWICE if found else None, *[None] * 3], (
            text
        )
        assert decided.notes[1:] == [""] * 3 and ("write " in decided.notes[0]) == found


def test_a_split_without_utterances_is_refused_with_the_setting_that_fills_it(tmp_path: Path, murmur: Murmur) -> None:
    recordings = {f"u{number}": murmur(2, number) for number in range(4)}
    rows = {id: f"|{id} is a sound sentence.|".encode() for id in recordings}
    source = ljspeech(tmp_path / "in", rows, recordings)
    with pytest.raises(SonorantError, match=r"jsonl: 4 .*\(4 texts\) leave no .*prepare\.validation to 0\S+, or .*$"):
        prepared(source, tmp_path, replace(CONFIG, validation=0.02))
    assert not (tmp_path / "prepared").exists()


def test_the_real_recordings_are_all_sound(tmp_path: Path, ljspeech_mini: Path) -> None:
    accepted, rejected = prepared(ljspeech_mini, tmp_path, CONFIG)
    assert (len(accepted), rejected) == (20, {})
    assert {u.sample_rate for u in accepted} == {22050}


def test_only_recordings_that_changed_are_examined_again(
    tmp_path: Path, murmur: Murmur, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus, rows = tmp_path / "corpus", []
    corpus.mkdir()
    for number in range(4):
        soundfile.write(corpus / f"{number}.wav", murmur(2, number), 16000)
        rows.append(replace(SOUND, id=f"u{number}", audio=f"{number}.wav"))
    seen = Mock(side_effect=examine)
    monkeypatch.setattr(sys.modules["sonorant.corpus.preparation.prepare"], "examine", seen)

    def examined(config: PrepareConfig = CONFIG) -> list[str]:
        write_manifest(corpus / "manifest.jsonl", rows)
        prepare(corpus, tmp_path / "out", config, "gruut", condition=CONDITION, cache=tmp_path / "cache")
        found = [call.args[0].id for call in seen.call_args_list]
        seen.reset_mock()
        return found

    assert examined() == ["u0", "u1", "u2", "u3"]
    assert examined() == examined(replace(CONFIG, most_held_out=9, max_reverberation=9.0)) == []
    soundfile.write(corpus / "1.wav", murmur(2, 99), 16000)
    rows[2] = replace(rows[2], text="Another sound sentence, of more words.")
    rows[3] = replace(rows[3], id="renamed")
    assert examined() == ["u1", "u2"]
    assert examined(replace(CONFIG, min_seconds=0.4)) == ["u0", "u1", "u2", "renamed"]
    prepare(corpus, tmp_path / "anew", replace(CONFIG, min_seconds=0.4), "gruut", condition=CONDITION)
    assert contents(tmp_path / "out") == contents(tmp_path / "anew")
