"""Held-out sentences are never trained on; a split depends on its own utterance only."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

from sonorant.corpus.manifest import Defect, Utterance, read_manifest, write_manifest
from sonorant.corpus.preparation import PrepareConfig, prepare
from sonorant.corpus.splits import SplitBy, beyond, describe_texts, few_texts, split_key, split_of, text_key
from sonorant.files import read_json, read_jsonl
from tests.support.conditions import UNCONDITIONED

WORDS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
TAKES = st.lists(
    st.tuples(st.lists(st.sampled_from(WORDS), min_size=1, max_size=4), st.sampled_from(["anna", "ben"])), max_size=40
)
"""Words and speaker."""


def corpus_of(takes: list[tuple[list[str], str]], by: SplitBy) -> list[Utterance]:
    """Utterances as `prepare` splits them, three tenths to each held-out set."""
    found = []
    for number, (words, speaker) in enumerate(takes):
        text = " ".join(words)
        # Takes of one text differ in case and marks, as they do where people type them.
        spoken = (text, text.capitalize() + ".", text.upper())[number % 3]
        utterance = Utterance(id=f"u{number}", audio="a", text=text, speaker=speaker, language="en-us", spoken=spoken)
        split = split_of(split_key(utterance, by), validation=0.3, test=0.3)
        found.append(replace(utterance, split=split))
    return found


@given(TAKES)
def test_all_takes_of_a_text_are_in_one_split_whoever_speaks(takes: list[tuple[list[str], str]]) -> None:
    utterances = corpus_of(takes, "text")
    for words, _ in takes:
        assert len({u.split for u in utterances if u.text == " ".join(words)}) == 1
    assert describe_texts(utterances)["held_out_read"] == 0


@given(TAKES, TAKES, st.sampled_from(["text", "id", "speaker"]))
def test_adding_takes_moves_none(
    takes: list[tuple[list[str], str]], more: list[tuple[list[str], str]], by: SplitBy
) -> None:
    before, after = corpus_of(takes, by), corpus_of(takes + more, by)
    assert [u.split for u in before] == [u.split for u in after][: len(before)]


def held_out(utterances: list[Utterance], by: SplitBy, most: int) -> dict[str, set[str]]:
    """Ids by held-out split, where each has at most `most`."""
    surplus = beyond(utterances, by, most)
    rows = [u for u in utterances if split_key(u, by) not in surplus]
    return {split: {u.id for u in rows if u.split == split} for split in ("validation", "test")}


@given(TAKES, TAKES, st.sampled_from(["text", "id", "speaker"]), st.integers(1, 9), st.integers(0, 9))
def test_sets_that_are_capped_are_nested_whole_and_get_nothing_from_training(
    takes: list[tuple[list[str], str]], added: list[tuple[list[str], str]], by: SplitBy, most: int, more: int
) -> None:
    utterances, later = corpus_of(takes, by), corpus_of(takes + added, by)
    kept, wider, grown = (
        held_out(utterances, by, most),
        held_out(utterances, by, most + more),
        held_out(later, by, most),
    )
    before = {u.id for u in utterances}
    for split, ids in kept.items():
        own = [u for u in utterances if u.split == split]
        keys = {split_key(u, by) for u in own if u.id in ids}
        assert ids == {u.id for u in own if split_key(u, by) in keys}, "texts and speakers stay whole"
        assert len(ids) <= most or len(keys) == 1
        assert bool(ids) == bool(own)
        assert ids <= wider[split]
        assert len(own) > most or ids == {u.id for u in own}
        if len(ids) == most:
            assert grown[split] & before <= ids, "a full set takes nothing back from training"


def test_splits_by_speaker_and_by_id() -> None:
    takes = [([WORDS[number % 10]], f"speaker {number % 20}") for number in range(400)]
    by_speaker = corpus_of(takes, "speaker")
    assert all(len({u.split for u in by_speaker if u.speaker == name}) == 1 for _, name in takes)
    assert len({u.split for u in corpus_of(takes, "id") if u.text == "one"}) == 3


@given(ids=st.lists(st.text(max_size=20), max_size=50), validation=st.floats(0, 0.4), test=st.floats(0, 0.4))
def test_a_larger_fraction_takes_from_train_alone(ids: list[str], validation: float, test: float) -> None:
    for id in ids:
        before = split_of(id, validation=validation, test=test)
        assert before in ("train", split_of(id, validation=validation + 0.1, test=test + 0.1))


def test_splits_have_the_fractions_asked_for() -> None:
    counts = Counter(split_of(f"utterance-{number}", validation=0.02, test=0.11) for number in range(20000))
    assert counts["validation"] / 20000 == pytest.approx(0.02, abs=0.005)
    assert counts["test"] / 20000 == pytest.approx(0.11, abs=0.01)


@given(st.lists(st.text(max_size=20), max_size=20))
def test_a_key_holds_words_alone(texts: list[str]) -> None:
    for text in texts:
        utterance = Utterance(id="a", audio="a", text=text, speaker="s", language="en-us", spoken=text)
        assert text_key(utterance) == text_key(replace(utterance, spoken=f'  "{text}" !'))


def test_near_duplicates_are_counted_and_named() -> None:
    read = "it was a bright cold day in april"
    texts = [(read, "train"), (f"{read} again", "test"), ("nothing at all like the others", "test"), (read, "train")]
    utterances = [
        Utterance(id=f"u{n}", audio="a", text=text, speaker="s", language="en-us", spoken=text, split=split)
        for n, (text, split) in enumerate(texts)
    ]
    found = describe_texts(utterances)
    assert (found["texts"], found["takes"], found["held_out_read"]) == (3, 2, 0)
    assert found["near_duplicates"] == [{"held_out": f"{read} again", "read": read, "words": 1}]
    learned = describe_texts([*utterances, replace(utterances[0], id="taken", split="validation")])
    assert learned["held_out_read"] == 1


def test_a_corpus_of_few_texts_is_told_the_way_out() -> None:
    digits = corpus_of([([WORDS[number % 10]], "anna") for number in range(200)], "text")
    assert "200 utterances say 10 different texts" in str(few_texts(digits, "text", 0.02, 0.11))
    assert few_texts(digits, "id", 0.02, 0.11) is None
    many = corpus_of([([*WORDS, str(number)], "anna") for number in range(200)], "text")
    assert few_texts(many, "text", 0.02, 0.11) is None


def test_a_speaker_of_whom_nothing_is_trained_is_left_out_by_name(
    tmp_path: Path, murmur: Callable[..., np.ndarray], prepare_config: PrepareConfig
) -> None:
    config = replace(prepare_config, validation=0.0, test=0.5, max_rejected=1.0)
    said = {"train": [], "test": []}  # type: dict[str, list[str]]
    for word in WORDS:
        text = f"a sentence with the number {word} in it"
        said[split_of(text, validation=0.0, test=0.5)].append(text)
    texts = [("anna", said["train"][0]), ("anna", said["test"][0]), ("ben", said["test"][1])]
    rows = []
    for number, (speaker, text) in enumerate(texts):
        soundfile.write(tmp_path / f"{number}.wav", murmur(2, number), 16000)
        rows.append(Utterance(id=f"u{number}", audio=f"{number}.wav", text=text, speaker=speaker, language="en-us"))
    write_manifest(tmp_path / "manifest.jsonl", rows)
    prepare(tmp_path, tmp_path / "out", config, "gruut", condition=UNCONDITIONED)
    assert [u.split for u in read_manifest(tmp_path / "out/manifest.jsonl")] == ["train", "test"]
    (row,) = read_jsonl(tmp_path / "out/rejected.jsonl")
    assert row["reason"] == Defect.NOT_TRAINED and "'ben'" in row["detail"]
    prepare(
        tmp_path, tmp_path / "other", replace(config, split_by="speaker", test=0.0), "gruut", condition=UNCONDITIONED
    )
    assert read_json(tmp_path / "other/summary.json")["utterances"] == 3


def test_speakers_of_uneven_minutes_have_a_row_each_and_the_scarce_are_left_out_by_name(
    tmp_path: Path, murmur: Callable[..., np.ndarray], prepare_config: PrepareConfig
) -> None:
    config = replace(prepare_config, validation=0.0, test=0.3, max_rejected=1.0)
    rows = []
    for speaker, count in (("anna", 14), ("ben", 5), ("eve", 1)):
        for number in range(count):
            audio, text = f"{speaker}{number}.wav", f"this is the sentence number {len(rows) + 100} of them"
            soundfile.write(tmp_path / audio, (0.2 if speaker == "ben" else 1.0) * murmur(2, len(rows)), 16000)
            rows.append(Utterance(id=audio[:-4], audio=audio, text=text, speaker=speaker, language="en-us"))
    write_manifest(tmp_path / "manifest.jsonl", rows)
    prepare(tmp_path, tmp_path / "all", config, "gruut", condition=UNCONDITIONED)
    by_speaker = read_json(tmp_path / "all/summary.json")["by_speaker"]
    accepted = read_manifest(tmp_path / "all/manifest.jsonl")
    assert set(by_speaker) == {"anna", "ben", "eve"}
    for speaker, of in by_speaker.items():
        own = [utterance for utterance in accepted if utterance.speaker == speaker]
        assert of["utterances"] == len(own) == sum(of["splits"].values())
        assert of["utterances"] + of["rejected"] == sum(row.speaker == speaker for row in rows)
        assert not own or of["splits"]["train"], "whoever stays is learned"
    assert by_speaker["anna"]["loudness"] - by_speaker["ben"]["loudness"] == pytest.approx(14, abs=1)
    assert "Speakers: 3" in (tmp_path / "all/summary.html").read_text()

    few = replace(config, min_speaker_seconds=11.0)
    prepare(tmp_path, tmp_path / "few", few, "gruut", condition=UNCONDITIONED)
    rejected = read_jsonl(tmp_path / "few/rejected.jsonl")
    scarce = [row for row in rejected if row["reason"] == Defect.FEW_SECONDS]
    assert {row["id"].rstrip("0123456789") for row in scarce} == {"ben", "eve"}
    of_ben = [row for row in scarce if row["id"].startswith("ben")]
    said = f"speaker 'ben' has {2 * len(of_ben):.1f} s, at least 11 s (min_speaker_seconds)"
    assert {row["detail"] for row in of_ben} == {said}
    assert {u.speaker for u in read_manifest(tmp_path / "few/manifest.jsonl")} == {"anna"}


@pytest.mark.parametrize("held_out", ["validation", "test"])
def test_a_page_of_takes_says_how_they_are_split(
    tmp_path: Path, murmur: Callable[..., np.ndarray], prepare_config: PrepareConfig, held_out: str
) -> None:
    config = replace(prepare_config, split_by="id", **{"validation": 0.0, "test": 0.0, held_out: 0.5})
    rows = []
    for number in range(8):
        soundfile.write(tmp_path / f"{number}.wav", murmur(2, number), 16000)
        text = "the same few words again and again"
        rows.append(Utterance(id=f"u{number}", audio=f"{number}.wav", text=text, speaker="s", language="en-us"))
    write_manifest(tmp_path / "manifest.jsonl", rows)
    prepare(tmp_path, tmp_path / "out", config, "gruut", condition=UNCONDITIONED)
    splits = Counter(u.split for u in read_manifest(tmp_path / "out/manifest.jsonl"))
    summary = read_json(tmp_path / "out/summary.json")
    assert 0 < summary["texts"]["held_out_read"] == splits[held_out] < 8
    page = (tmp_path / "out/summary.html").read_text()
    assert "held-out utterances whose text training reads" in page
