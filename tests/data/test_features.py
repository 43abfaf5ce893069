"""The feature store: whole, the same however it is made, and refused when it is not what a reader expects."""

from __future__ import annotations

import dataclasses
import json
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from sonorant.audio.mel import MelConfig, frames_of, log_mel
from sonorant.audio.wav import read_audio, write_wav
from sonorant.data.feature_writer import write_features
from sonorant.data.features import FeatureStore
from sonorant.data.manifest import Utterance, write_manifest
from sonorant.errors import SonorantError
from sonorant.text import SymbolTable, TextConfig, load_frontend
from tests.support.command import run_command

ROOT = Path(__file__).parents[2]
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


def make_corpus(folder: Path, rate: int = 22050) -> list[Utterance]:
    """Six recordings of noise with real texts, three speakers out of order, the last utterance not in training."""
    utterances = []
    for number, text in enumerate(TEXTS):
        samples = 0.1 * np.random.default_rng(number).standard_normal(rate // 2 + 997 * number)
        write_wav(folder / "audio" / f"u{number}.wav", samples.astype(np.float32), rate)
        utterances.append(
            Utterance(
                id=f"u{number}", audio=f"audio/u{number}.wav", text=text, speaker=("eve", "adam",
                "mallory")[number % 3],
                language="en-us", seconds=len(samples) / rate, split="train" if number < 5 else "test",
            )
        )  # fmt: skip
    return utterances


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Utterance]]:
    folder = tmp_path_factory.mktemp("corpus")
    return folder, make_corpus(folder)


@pytest.fixture
def store(corpus: tuple[Path, list[Utterance]], tmp_path: Path) -> Path:
    write_features(*corpus, tmp_path / "features", AUDIO, TEXT, processes=1)
    return tmp_path / "features"


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}


def test_what_is_read_is_what_was_recorded_and_written(corpus: tuple[Path, list[Utterance]], store: Path) -> None:
    folder, utterances = corpus
    features = FeatureStore.open(store, AUDIO)
    frontend = load_frontend("gruut", "en-us")
    table = SymbolTable(features.header["symbols"])
    assert features.ids == [utterance.id for utterance in utterances]
    assert features.split == [utterance.split for utterance in utterances]
    for i, utterance in enumerate(utterances):
        heard, _ = read_audio(folder / str(utterance.audio), AUDIO.sample_rate)
        frames = frames_of(len(heard), AUDIO)
        samples = features.samples(i)
        assert samples.dtype == np.int16
        assert samples.shape == (frames * AUDIO.hop,)
        np.testing.assert_allclose(samples[: len(heard)] / 32768, heard, atol=0.51 / 32768)
        assert not samples[len(heard) :].any()

        mel = features.mel(i)
        assert (mel.dtype, mel.shape) == (np.float16, (frames, AUDIO.n_mels))
        assert features.frames[i] == frames
        np.testing.assert_allclose(mel, log_mel(torch.from_numpy(samples / np.float32(32768)), AUDIO).T, atol=0.01)

        tokens = features.tokens(i)
        assert tokens.dtype == np.int16
        assert features.tokens_count[i] == len(tokens)
        assert table.to_phonemes(tokens) == frontend.speak(utterance.text).phonemes


def test_the_header_describes_the_training_split_and_the_speakers(store: Path) -> None:
    features = FeatureStore.open(store)
    training = np.concatenate([features.mel(i).astype(np.float64) for i in features.indices("train")])
    assert features.header["mel_mean"] == pytest.approx(training.mean())
    assert features.header["mel_std"] == pytest.approx(training.std())
    assert features.header["speakers"] == ["adam", "eve", "mallory"]
    assert features.speaker.tolist() == [1, 0, 2, 1, 0, 2]
    assert features.indices("test").tolist() == [5]
    assert features.header["audio"] == dataclasses.asdict(AUDIO)
    assert features.header["frontend"]["name"] == "gruut"
    features.verify()


def test_the_number_of_processes_changes_no_byte(corpus: tuple[Path, list[Utterance]], tmp_path: Path) -> None:
    folder, utterances = corpus
    many = [
        dataclasses.replace(u, id=f"{u.id}-{copy}") for copy in range(8) for u in utterances
    ]  # more than may be under way
    for processes in (1, 2):
        write_features(folder, many, tmp_path / str(processes), AUDIO, TEXT, processes)
    assert contents(tmp_path / "1") == contents(tmp_path / "2")


def test_the_content_hash_tells_data_apart(corpus: tuple[Path, list[Utterance]], store: Path, tmp_path: Path) -> None:
    folder, utterances = corpus
    changed = [dataclasses.replace(utterances[0], text="One small leap."), *utterances[1:]]
    write_features(folder, changed, tmp_path / "other", AUDIO, TEXT, processes=1)
    assert FeatureStore.open(tmp_path / "other").header["content"] != FeatureStore.open(store).header["content"]


def test_a_worker_process_is_sent_the_path_not_the_arrays(store: Path) -> None:
    features = FeatureStore.open(store)
    sent = pickle.dumps(features)
    assert len(sent) < 1000
    np.testing.assert_array_equal(pickle.loads(sent).mel(2), features.mel(2))


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-2])


def edit(path: Path, change: Callable[[dict], None]) -> None:
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda store: truncate(store / "mels.npy"), r"mels.npy: truncated or damaged"),
        (lambda store: truncate(store / "audio.npy"), r"audio.npy: truncated or damaged"),
        (lambda store: truncate(store / "tokens.npy"), r"tokens.npy: truncated or damaged"),
        (lambda store: (store / "audio.npy").unlink(), r"audio.npy: no such file"),
        (lambda store: (store / "mels.npy").write_bytes(b"not numpy"), r"mels.npy: truncated or damaged"),
        (lambda store: (store / "index.json").unlink(), r"index.json: no such file"),
        (
            lambda store: edit(store / "header.json", lambda header: header.update(version=99)),
            r"version 99, this code reads 1",
        ),
        (
            lambda store: edit(store / "header.json", lambda header: header.pop("speakers")),
            r"header.json: key 'speakers' is missing",
        ),
        (
            lambda store: edit(store / "index.json", lambda index: index.pop()),
            r"mels.npy: holds float16 .*, the index says",
        ),
        (lambda store: edit(store / "index.json", lambda index: index.reverse()), r"do not follow each other"),
        (
            lambda store: edit(store / "index.json", lambda index: index[0].update(speaker=7)),
            r"speaker that header.json lacks",
        ),
        (
            lambda store: edit(store / "index.json", lambda index: index[0].pop("frames")),
            r"index.json: not a list of utterances",
        ),
    ],
)
def test_a_damaged_store_is_refused_in_one_line(store: Path, damage: Callable[[Path], None], message: str) -> None:
    damage(store)
    with pytest.raises(SonorantError, match=message) as raised:
        FeatureStore.open(store)
    assert "dvc repro" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_changed_byte_is_found_by_verify(store: Path) -> None:
    data = bytearray((store / "audio.npy").read_bytes())
    data[-9000] ^= 1
    (store / "audio.npy").write_bytes(data)
    with pytest.raises(SonorantError, match=r"not those the header was written for; run: dvc repro features"):
        FeatureStore.open(store).verify()


def test_other_settings_are_refused_by_name(store: Path) -> None:
    other = dataclasses.replace(AUDIO, n_mels=100, f_max=7600.0)
    with pytest.raises(
        SonorantError, match=r"audio.n_mels 80 \(now 100\), audio.f_max 8000.0 \(now 7600.0\); run: dvc repro features"
    ):
        FeatureStore.open(store, other)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"split": "test"}, "none of 6 utterances is in the training split"),
        ({"split": None}, "none of 6 utterances is in the training split"),
        ({"text": "😀"}, "utterance 'u0': nothing in '😀' can be spoken"),
        ({"audio": "audio/none.wav"}, "none.wav: no such audio file"),
        ({"language": "de-de"}, "mixes the languages de-de, en-us"),
    ],
)
def test_an_utterance_that_cannot_be_used_leaves_nothing_behind(
    corpus: tuple[Path, list[Utterance]], tmp_path: Path, change: dict[str, str], message: str
) -> None:
    folder, utterances = corpus
    changed = [
        dataclasses.replace(u, **change) if number == 0 or "split" in change else u
        for number, u in enumerate(utterances)
    ]
    with pytest.raises(SonorantError, match=message):
        write_features(folder, changed, tmp_path / "features", AUDIO, TEXT, processes=1)
    assert list(tmp_path.iterdir()) == []


def test_a_failing_worker_process_leaves_the_former_store_as_it_was(
    corpus: tuple[Path, list[Utterance]], store: Path
) -> None:
    folder, utterances = corpus
    before = contents(store)
    broken = [*utterances[:3], dataclasses.replace(utterances[3], audio="audio/none.wav"), *utterances[4:]]
    with pytest.raises(SonorantError, match=r"none\.wav: no such audio file"):
        write_features(folder, broken, store, AUDIO, TEXT, processes=2)
    assert contents(store) == before
    assert list(store.parent.iterdir()) == [store]


def test_the_stage_makes_a_store_from_real_recordings(ljspeech_mini: Path, tmp_path: Path) -> None:
    rows = [line.split("|") for line in (ljspeech_mini / "metadata.csv").read_text(encoding="utf-8").splitlines()]
    utterances = [
        Utterance(id=row[0], audio=f"wavs/{row[0]}.wav", text=row[1], speaker="lj", language="en-us", split="train")
        for row in rows
    ]
    write_manifest(tmp_path / "prepared" / "manifest.jsonl", utterances)
    places = {"--corpus": ljspeech_mini, "--prepared": tmp_path / "prepared", "--out": tmp_path / "features"}
    done = run_command("tasks.features", *(word for place in places.items() for word in place), cwd=ROOT)
    assert done.returncode == 0, done.stderr
    features = FeatureStore.open(tmp_path / "features")
    features.verify()
    assert len(features) == len(rows)
    frames_per_token = features.frames / features.tokens_count
    assert ((frames_per_token > 3) & (frames_per_token < 9)).all()  # LJSpeech says 9 to 14 phonemes a second
