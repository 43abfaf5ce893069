import sys
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import torch

from sonorant.audio.wav import write_wav
from sonorant.corpus.audit.audit import AuditConfig, audit
from sonorant.corpus.audit.clip_scoring import Course, examine, train_aligner
from sonorant.corpus.audit.findings import Fault, read_audit
from sonorant.corpus.audit.readings import number_readings
from sonorant.corpus.manifest import Utterance, read_manifest, write_manifest
from sonorant.errors import SonorantError
from sonorant.files import read_json, read_jsonl, sha256_file
from sonorant.text import load_frontend
from tasks.params import load
from tests.support.command import run_command
from tests.support.imports import ROOT

STAGE, ALIGNMENT, HEARING = (sys.modules[f"sonorant.corpus.audit.{name}"] for name in ("audit", "alignment", "hearing"))
CONFIG = load("audit", AuditConfig, ROOT / "params.yaml")
PROMPT = "many people like green apples better than small yellow plums because good fruit needs much sun"
RATE = 16000


def sing(text: str, seed: int) -> np.ndarray:
    """Each phone of the text as its own 0.1 s chord in faint noise."""
    chance = np.random.default_rng(seed)
    time = np.arange(RATE // 10) / RATE
    frontend = load_frontend("gruut", "en-us")
    symbols = [phoneme.symbol for phoneme in frontend.speak(text).phonemes if phoneme.symbol not in ",.?!"]
    places = [frontend.symbols.index(symbol) for symbol in symbols]
    chords = [np.sin(2 * np.pi * f * time) for place in places for f in [300 + 130 * place]]
    silence = np.zeros(RATE // 10)
    samples = np.concatenate([silence, *(0.3 * chord * np.hanning(len(chord)) for chord in chords), silence])
    return (samples + chance.normal(0, 1e-3, len(samples))).astype(np.float32)


def corpus_of(
    folder: Path, count: int, swapped: tuple[int, ...] = (), otherwise: tuple[int, ...] | None = None
) -> list[Utterance]:
    """Corpus of sung sentences; `swapped` ones have another text. `otherwise`: texts with numbers, every second
    read as a year."""
    chance = np.random.default_rng(1)
    texts = [" ".join(chance.choice(PROMPT.split(), 6, replace=False)) for _ in range(count)]
    numbers = [
        f"{chance.integers(1, 10)},{chance.integers(100, 1000)}" if place % 2 else str(chance.integers(1910, 2000))
        for place in range(count)
    ]
    if otherwise is not None:
        texts = [text.replace(" ", f" {number} ", 1) for text, number in zip(texts, numbers, strict=True)]
    rows = []
    for number, text in enumerate(texts):
        sung = texts[(number + 1) % count] if number in swapped else text
        if number in (otherwise or ()):
            sung = text.replace(numbers[number], number_readings(numbers[number], "en-us")["number"])
        write_wav(folder / f"{number}.wav", sing(sung, number), RATE)
        sha = sha256_file(folder / f"{number}.wav")
        rows.append(
            Utterance(
                id=f"u{number}",
                audio=f"{number}.wav",
                text=text,
                speaker="s",
                language="en-us",
                spoken=load_frontend("gruut", "en-us").speak(text).text,
                seconds=3.0,
                sample_rate=RATE,
                sha256=sha,
                clip=sha[:12],
                split="train",
            )
        )
    write_manifest(folder / "prepared/manifest.jsonl", rows)
    return rows


def run_stage(folder: Path, config: AuditConfig, skip: str | None = None) -> dict:
    audit(folder, folder / "prepared", folder / "out", config, "gruut", cache=folder / "cache", skip=skip)
    return read_json(folder / "out/summary.json")


@pytest.fixture
def smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    """Allow auditing corpora of a few clips."""
    monkeypatch.setattr(STAGE, "LEAST_CLIPS", 4)
    monkeypatch.setattr(STAGE, "LEAST_SECONDS", 1)


@pytest.mark.long
@pytest.mark.usefixtures("smaller")
def test_swapped_texts_come_first_and_are_dropped_where_asked(tmp_path: Path) -> None:
    swapped = (5, 40, 90)
    corpus_of(tmp_path, 120, swapped)
    config = replace(CONFIG, steps=400, drop_above=CONFIG.doubt)
    summary = run_stage(tmp_path, config)
    audited = {row.id: row for row in read_audit(tmp_path / "out/audit.jsonl")}
    worst = sorted(audited.values(), key=lambda row: -row.score)[:3]
    assert {row.id for row in worst} == {f"u{number}" for number in swapped}
    assert {row.fault for row in worst} == {Fault.OTHER_TEXT}
    assert summary["doubtful"] == summary["dropped"] <= 3 + 4
    kept = {utterance.id for utterance in read_manifest(tmp_path / "out/manifest.jsonl")}
    assert kept == audited.keys() - {row["id"] for row in read_jsonl(tmp_path / "out/dropped.jsonl")}
    words = audited["u1"].words
    assert [word.text for word in words] == read_manifest(tmp_path / "prepared/manifest.jsonl")[1].text.split()
    places = np.array([(word.start, word.end) for word in words])
    phones = [len(load_frontend("gruut", "en-us").speak(word.text).phonemes) for word in words]
    edges = 0.1 + 0.1 * np.cumsum([0, *phones])
    assert np.abs(places - np.stack([edges[:-1], edges[1:]], axis=1)).max() < 0.1, "words are where they were sung"


@pytest.mark.long
@pytest.mark.usefixtures("smaller")
def test_numbers_read_in_another_way_are_found_and_the_reading_is_named(tmp_path: Path) -> None:
    otherwise = (4, 50, 78, 110)
    rows = corpus_of(tmp_path, 120, otherwise=otherwise)
    summary = run_stage(tmp_path, replace(CONFIG, steps=500))
    audited = read_audit(tmp_path / "out/audit.jsonl")
    found = {row.id: row.reading for row in audited if row.fault == Fault.READING}
    assert found.keys() == {f"u{number}" for number in otherwise}, summary
    for number in otherwise:
        reading, year = found[f"u{number}"], rows[number].text.split()[1]
        assert reading is not None and reading.written == year
        manners = number_readings(year, "en-us")
        assert reading.heard in (manners["number"], manners["without and"])  # apart by one word that few texts hold
    assert reading.heard in (tmp_path / "out/audit.html").read_text()


@pytest.mark.usefixtures("smaller")
def test_only_what_changed_is_worked_on_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = corpus_of(tmp_path, 12)
    seen, trained = Mock(side_effect=examine), Mock(wraps=ALIGNMENT.spread)
    monkeypatch.setattr(ALIGNMENT, "examine", seen)
    monkeypatch.setattr(ALIGNMENT, "spread", trained)
    monkeypatch.setattr(STAGE, "judge", lambda exhibits, clips: (np.zeros(clips), [Fault.OTHER_TEXT] * clips))  # slow
    config = replace(CONFIG, steps=2)

    def examined() -> tuple[int, int]:
        run_stage(tmp_path, config)
        found = len(trained.call_args.args[1]), seen.call_count
        seen.reset_mock()
        return found

    assert examined() == (2, 12), "two aligners, every clip"
    before = (tmp_path / "out/audit.jsonl").read_bytes()
    assert examined() == (0, 0) and (tmp_path / "out/audit.jsonl").read_bytes() == before
    monkeypatch.setattr(ALIGNMENT, "LEARNED_SECONDS", 6.0)  # the aligners learn from the first two clips in their order
    assert examined() == (2, 12)
    assert examined() == (0, 0)
    last = max(range(len(rows)), key=lambda place: ALIGNMENT._order(rows[place]))
    for text, most in (("green apples", 2), ("three thin things", len(rows))):  # new phones; words to plant
        rows[last] = replace(rows[last], text=text, spoken=text)
        write_manifest(tmp_path / "prepared/manifest.jsonl", rows)
        trained_again, examined_again = examined()
        assert trained_again == 0 and 1 <= examined_again <= most, "the clip, and the one that borrows its text"
    audited = {row.id: row for row in read_audit(tmp_path / "out/audit.jsonl")}
    assert [word.text for word in audited[rows[last].id].words] == text.split()


def test_training_an_aligner_leaves_the_threads_of_its_process_as_they_were(tmp_path: Path) -> None:
    clips = tuple((row, (("all", (1, 2, 3)),)) for row in corpus_of(tmp_path, 3))
    before = torch.get_num_threads()
    course = Course(corpus=tmp_path, clips=clips, labels=4, steps=1, fold=0, threads=before + 1)
    assert train_aligner(course)
    assert torch.get_num_threads() == before


def test_what_is_too_small_or_needs_no_judge_says_so_and_passes(tmp_path: Path) -> None:
    rows = corpus_of(tmp_path, 3)
    rows[1] = replace(rows[1], confidence=0.4321)
    write_manifest(tmp_path / "prepared/manifest.jsonl", rows)
    config = replace(CONFIG, sources=("aligner", "pocketsphinx"))
    summary = run_stage(tmp_path, config)
    assert list(summary["sources"]) == ["aligner", "pocketsphinx"]
    assert all(
        said.startswith("not run: 3 utterances and 0.1 minutes are too few") for said in summary["sources"].values()
    )
    assert "not run: 3 utterances" in (tmp_path / "out/audit.html").read_text()
    assert read_manifest(tmp_path / "out/manifest.jsonl") == rows
    assert (
        run_stage(tmp_path, config, skip="spoken by a machine")["sources"]["aligner"] == "not run: spoken by a machine"
    )
    assert run_stage(tmp_path, replace(config, sources=()))["sources"] == {}
    figures = [row.figures for row in read_audit(tmp_path / "out/audit.jsonl")]
    assert figures == [{}, {"confidence in the text": 0.432}, {}]


@pytest.mark.usefixtures("smaller")
def test_a_recogniser_alone_finds_texts_that_it_did_not_hear(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = corpus_of(tmp_path, 60)
    heard = [row.text for row in rows]
    heard[7], heard[20] = heard[20], heard[7]
    monkeypatch.setattr(STAGE, "hear", lambda *given: heard)
    run_stage(tmp_path, replace(CONFIG, sources=("pocketsphinx",)))
    audited = read_audit(tmp_path / "out/audit.jsonl")
    worst = sorted(audited, key=lambda row: -row.score)[:2]
    assert {row.id for row in worst} == {"u7", "u20"} and {row.fault for row in worst} == {Fault.OTHER_TEXT}


def test_dropping_everything_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus_of(tmp_path, 3)
    monkeypatch.setattr(STAGE, "_judge", lambda texts, found, heard: ([1.0] * 3, [Fault.OTHER_TEXT] * 3))
    with pytest.raises(SonorantError, match=r"audit\.drop_above: 0\.9 drops all 3 utterances"):
        run_stage(tmp_path, replace(CONFIG, drop_above=0.9))
    assert not (tmp_path / "out").exists()


def test_an_unknown_source_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown source 'ears'; use aligner, pocketsphinx"):
        replace(CONFIG, sources=("aligner", "ears"))


def test_the_command_on_a_synthesiser_s_corpus(tmp_path: Path) -> None:
    corpus_of(tmp_path, 3)
    (tmp_path / "params.yaml").write_text((ROOT / "params.yaml").read_text())
    arguments = ("--corpus", ".", "--prepared", "prepared", "--cache", "cache", "--out", "audit")
    done = run_command("tasks.audit", *arguments, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    said = read_json(tmp_path / "audit/summary.json")["sources"]["aligner"]
    assert said == "not run: a synthesiser spoke the texts of corpus.kind demo, so they are correct"
