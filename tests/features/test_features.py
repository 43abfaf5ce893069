import pickle
import shutil
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sonorant.audio.mel import MelConfig, frames_of, log_mel
from sonorant.audio.wav import read_audio, write_wav
from sonorant.corpus.manifest import Utterance, write_manifest
from sonorant.errors import SonorantError
from sonorant.features.feature_store import FeatureStore
from sonorant.features.feature_writer import write_features
from sonorant.features.store import StoreConfig
from sonorant.files import read_json, write_json
from sonorant.text import SymbolTable, TextConfig, load_frontend
from testbed.synthetic_corpus import store_beside
from tests.support.command import run_command
from tests.support.folders import contents
from tests.support.imports import ROOT
from tests.support.stores import damage, object_of

AUDIO = MelConfig(sample_rate=16000, n_fft=1024, hop=256, n_mels=80, f_min=0.0, f_max=8000.0)
TEXT = TextConfig(frontend="gruut")
TEXTS = (
    "One small step.",
    "Two birds, one stone!",
    "It cost $3.50?",
    "The quick brown fox jumps.",
    "Blorft is a word.",
    "Good night.",
)


Corpus = tuple[Path, list[Utterance]]


def make_corpus(folder: Path, rate: int = 22050) -> Corpus:
    """Six recordings of noise with real texts, three speakers out of order, the last one held out."""
    utterances = []
    for number, text in enumerate(TEXTS):
        samples = 0.1 * np.random.default_rng(number).standard_normal(rate // 2 + 997 * number)
        write_wav(folder / "audio" / f"u{number}.wav", samples.astype(np.float32), rate)
        utterances.append(Utterance(
            id=f"u{number}", audio=f"audio/u{number}.wav", text=text, speaker=("eve", "adam", "mallory")[number % 3],
            language="en-us", seconds=len(samples) / rate, split="train" if number < 5 else "test",
        ))  # fmt: skip
    return folder, utterances


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return make_corpus(tmp_path_factory.mktemp("corpus"))


def write(corpus: Corpus, out: Path, processes: int = 1, store: StoreConfig | None = None) -> Path:
    write_features(*corpus, out, AUDIO, TEXT, processes, store=store or store_beside(out, 2))
    return out


@pytest.fixture
def store(corpus: Corpus, tmp_path: Path) -> Path:
    return write(corpus, tmp_path / "features")


def test_what_is_read_is_what_was_recorded_and_written(corpus: Corpus, store: Path) -> None:
    folder, utterances = corpus
    features = FeatureStore.open(store)
    frontend = load_frontend("gruut", "en-us")
    table = SymbolTable(features.header["symbols"])
    assert list(features.ids) == [utterance.id for utterance in utterances]
    assert [features.header["splits"][split] for split in features.split] == [u.split for u in utterances]
    for i, utterance in enumerate(utterances):
        heard, _ = read_audio(folder / str(utterance.audio), AUDIO.sample_rate)
        frames = frames_of(len(heard), AUDIO)
        samples = features.samples(i)
        assert (samples.dtype, samples.shape) == (np.int16, (frames * AUDIO.hop,))
        np.testing.assert_allclose(samples[: len(heard)] / 32768, heard, atol=0.51 / 32768)
        assert not samples[len(heard) :].any()

        mel = features.mel(i)
        assert (mel.dtype, mel.shape) == (np.float16, (frames, AUDIO.n_mels))
        assert features.frames[i] == frames
        np.testing.assert_allclose(mel, log_mel(torch.from_numpy(samples / np.float32(32768)), AUDIO).T, atol=0.01)

        tokens = features.tokens(i)
        assert (tokens.dtype, features.tokens_count[i]) == (np.int16, len(tokens))
        np.testing.assert_array_equal(tokens, table.to_tokens(frontend.speak(utterance.text).phonemes))


def test_the_header_describes_the_training_split_and_the_speakers(store: Path) -> None:
    features = FeatureStore.open(store)
    training = np.concatenate([features.mel(i).astype(np.float64) for i in features.indices("train")])
    assert features.header["mel_mean"] == pytest.approx(training.mean())
    assert features.header["mel_std"] == pytest.approx(training.std())
    assert features.header["speakers"] == ["adam", "eve", "mallory"]
    assert features.speaker.tolist() == [1, 0, 2, 1, 0, 2]
    assert features.indices("test").tolist() == [5]
    assert features.header["audio"] == asdict(AUDIO)
    assert features.header["frontend"]["name"] == "gruut"
    features.verify()


def test_the_number_of_processes_changes_no_byte(corpus: Corpus, tmp_path: Path) -> None:
    folder, utterances = corpus
    many = [replace(u, id=f"{u.id}-{copy}") for copy in range(8) for u in utterances]  # more than may be in progress
    for processes in (1, 2):
        write((folder, many), tmp_path / str(processes) / "features", processes)
    one, two = ({**contents(tmp_path / folder), "features/place.json": b""} for folder in ("1", "2"))
    assert one == two


def test_a_worker_process_hashes_no_index_but_another_one(
    store: Path, corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise each process would hash the index of the whole corpus."""
    sent, hashed = pickle.dumps(FeatureStore.open(store)), []
    monkeypatch.setattr("sonorant.features.index.array_hash", lambda file: hashed.append(file) or "another")
    assert len(sent) < 1000 and len(pickle.loads(sent)) == len(corpus[1]) and hashed == []
    header = read_json(store / "header.json")
    write_json(store / "header.json", header | {"index": "0" * 64})
    with pytest.raises(SonorantError, match="does not match the header"):
        pickle.loads(sent)
    assert hashed


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-2])


def edit(change: Callable[[Any], object]) -> Callable[[Path], None]:
    def edit_json(path: Path) -> None:
        value = read_json(path)
        change(value)
        write_json(path, value)

    return edit_json


@pytest.mark.parametrize(
    ("name", "damage", "message"),
    [
        ("index/frames.npy", Path.unlink, "index/frames.npy: no such file"),
        ("index/id_ends.npy", truncate, "index/id_ends.npy: truncated or damaged"),
        ("index/speaker.npy", damage, "index: does not match the header"),
        ("header.json", edit(lambda header: header.update(version=2)), "version 2, but this code reads 1"),
        ("header.json", edit(lambda header: header.pop("audio")), "header.json: damaged .'audio'"),
        ("place.json", edit(lambda place: place.pop("store")), "place.json: missing or damaged"),
    ],
)
def test_a_damaged_store_is_refused(store: Path, name: str, damage: Callable[[Path], object], message: str) -> None:
    damage(store / name)
    with pytest.raises(SonorantError, match=message) as raised:
        FeatureStore.open(store)
    assert "dvc repro" in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("name", "spoil", "message"),
    [
        ("mels", truncate, "truncated or damaged"),
        ("audio", lambda path: path.write_bytes(b"not numpy"), "truncated or damaged"),
        ("tokens", Path.unlink, r"\(tokens of shard 0\): no such file"),
        ("pitch", damage, r"\(pitch of shard 0\): damaged"),
    ],
)
def test_a_shard_that_is_damaged_or_missing_is_named_with_the_command_that_makes_it_anew(
    store: Path, name: str, spoil: Callable[[Path], object], message: str
) -> None:
    spoil(object_of(store, name))
    features = FeatureStore.open(store)

    def read_all() -> None:
        for i in range(len(features)):
            features.mel_and_pitch(i), features.samples(i), features.tokens(i)
        features.verify()

    with pytest.raises(SonorantError, match=message) as raised:
        read_all()
    assert str(raised.value).endswith("dvc repro --force --single-item features")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"split": "test"}, "none of 6 utterances is in the training split"),
        ({"text": "😀"}, "utterance 'u0': nothing in '😀' can be spoken"),
        ({"audio": "audio/none.wav"}, "none.wav: no such audio file"),
        ({"language": "de-de"}, "mixes the languages de-de, en-us"),
    ],
)
def test_useless_utterances_leave_nothing(corpus: Corpus, tmp_path: Path, change: dict[str, Any], message: str) -> None:
    folder, utterances = corpus
    changed = [replace(u, **change) if u.id == "u0" or "split" in change else u for u in utterances]
    with pytest.raises(SonorantError, match=message):
        write((folder, changed), tmp_path / "features")
    assert not (tmp_path / "features").exists()


def test_a_failing_worker_process_leaves_the_former_store_as_it_was(corpus: Corpus, store: Path) -> None:
    folder, utterances = corpus
    before = contents(store)
    broken = [replace(u, audio="audio/none.wav") if u.id == "u3" else u for u in utterances]
    with pytest.raises(SonorantError, match=r"none\.wav: no such audio file"):
        write((folder, broken), store, processes=2)
    assert contents(store) == before
    FeatureStore.open(store).verify()
    assert list((store.parent / "features-store" / "drafts").iterdir()) == []


def test_the_stage_makes_a_store_from_real_recordings(ljspeech_mini: Path, tmp_path: Path) -> None:
    rows = [line.split("|") for line in (ljspeech_mini / "metadata.csv").read_text(encoding="utf-8").splitlines()]
    utterances = [
        Utterance(id=row[0], audio=f"wavs/{row[0]}.wav", text=row[1], speaker="lj", language="en-us", split="train")
        for row in rows
    ]
    write_manifest(tmp_path / "prepared" / "manifest.jsonl", utterances)
    places = {"--corpus": ljspeech_mini, "--prepared": tmp_path / "prepared", "--out": tmp_path / "features"}
    shutil.copy(ROOT / "params.yaml", tmp_path)
    done = run_command("tasks.features", *(word for place in places.items() for word in place), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    moved = tmp_path.rename(tmp_path.with_name("moved"))
    features = FeatureStore.open(moved / "features")
    assert features.place.store == str(moved / "runs/store"), "a project may be moved"
    features.verify()
    assert len(features) == len(rows)
    frames_per_token = features.frames / features.tokens_count
    assert ((frames_per_token > 3) & (frames_per_token < 9)).all()  # LJSpeech has 9 to 14 phonemes a second
