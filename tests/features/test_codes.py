import math
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from sonorant.errors import SonorantError
from sonorant.extras.codec_lm.codec import Codec, CodecConfig
from sonorant.extras.codec_lm.source_codec import SourceCodec
from sonorant.features.codes import FRAMES, CodeStore, modules_of, write_codes, write_no_codes
from sonorant.features.feature_store import FeatureStore
from sonorant.features.store.shard_files import object_name
from sonorant.files import read_json, write_json
from testbed.tiny_training import tiny_features
from tests.support.folders import contents
from tests.support.stores import edit_index, own_copy

SIZES = CodecConfig(
    channels=8, expansion=2, kernel=3, encoder_blocks=1, decoder_blocks=1, stride=2, codebooks=2, levels=[4, 3],
    codebook_dropout=0.0, pretrained=None,
)  # fmt: skip


@pytest.fixture(scope="module")
def features(tmp_path_factory: pytest.TempPathFactory) -> FeatureStore:
    return FeatureStore.open(tiny_features(tmp_path_factory.mktemp("codes")))


@pytest.fixture(scope="module")
def codec(features: FeatureStore) -> Codec:
    torch.manual_seed(0)
    audio, mean = features.audio, features.header["mel_mean"]
    made = Codec(SIZES, mels=audio.n_mels, n_fft=audio.n_fft, hop=audio.hop, mel_mean=mean).eval()
    made.encoder.out.weight.data *= 4.0
    return made


@pytest.fixture
def store(features: FeatureStore, codec: Codec, tmp_path: Path) -> Path:
    write_codes(tmp_path / "codes", "codec_lm", features, codec, "a" * 64)
    return tmp_path / "codes"


def test_codes_are_those_of_each_utterance_in_a_worker_too(store: Path, features: FeatureStore, codec: Codec) -> None:
    codes = pickle.loads(pickle.dumps(CodeStore.open(store, features)))
    assert len(codes) == len(features)
    assert (codes.codebooks, codes.codes_per_stream, codes.stride) == (2, 12, 2)
    for i in range(len(features)):
        found = codes.codes(i)
        assert found.dtype == np.int16
        assert found.shape == (-(-int(features.frames[i]) // 2), 2) == (codes.frames[i], 2)
        mel = torch.from_numpy(features.mel(i).T.astype(np.float32))
        assert np.array_equal(found, codec.encode(mel[None])[0].numpy())
    assert (codes.codec["silence"], codes.codec["sha256"]) == (codec.silence.tolist(), "a" * 64)
    everything = np.concatenate([codes.codes(i) for i in range(len(codes))])
    used = [len(np.unique(everything[:, stream])) / 12 for stream in range(2)]
    assert codes.report["use"] == pytest.approx(used, abs=1e-4)
    assert all(0.0 < bits <= math.log2(12) for bits in codes.report["entropy_bits"])


def test_codes_of_other_features_are_refused(store: Path, features: FeatureStore, tmp_path: Path) -> None:
    other = Path(shutil.copytree(features.path, tmp_path / "other"))
    edit_index(other, lambda rows: [{**rows[0], "split": 2}, *rows[1:]])
    with pytest.raises(SonorantError, match=r"codes of other features than .*other; run: dvc repro train_waveform"):
        CodeStore.open(store, FeatureStore.open(other))


def test_a_family_without_codes_says_so_and_is_always_the_same(features: FeatureStore, tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_no_codes(tmp_path / name, "parallel")
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    assert [file.name for file in (tmp_path / "one").iterdir()] == ["header.json"]
    assert read_json(tmp_path / "one/header.json") == {"version": 1, "family": "parallel"}
    with pytest.raises(SonorantError, match=r"no codes, .* voice.family parallel; run: dvc repro train_waveform"):
        CodeStore.open(tmp_path / "one", features)


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


@pytest.mark.parametrize(
    ("name", "damage", "message"),
    [
        ("place.json", Path.unlink, r"missing or damaged; run: dvc repro train_waveform"),
        (FRAMES, truncate, r"damaged.*; run: dvc repro train_waveform"),
        (FRAMES, lambda path: np.save(path, np.append(np.load(path), 3)), "do not match"),
        (
            "header.json",
            lambda path: write_json(path, read_json(path) | {"version": 99}),
            "version 99, but this code reads 1",
        ),
    ],
)
def test_a_damaged_store_is_refused(
    store: Path, features: FeatureStore, name: str, damage: Callable[[Path], None], message: str
) -> None:
    damage(store / name)
    with pytest.raises(SonorantError, match=message):
        CodeStore.open(store, features)


def test_a_codec_of_another_frame_rate_than_it_says_is_refused(
    features: FeatureStore, codec: Codec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encode = Codec.encode_utterance
    monkeypatch.setattr(Codec, "encode_utterance", lambda self, mel_MT, samples_S: encode(self, mel_MT, samples_S)[:-1])
    with pytest.raises(SonorantError, match=r"utterance 'u\d+'.*use a codec that was made for these features"):
        write_codes(tmp_path / "codes", "codec_lm", features, codec, "b" * 64)
    assert not (tmp_path / "codes").exists()


def test_codes_that_are_there_are_not_made_again(
    features: FeatureStore, codec: Codec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Codes of a codec with other weights are computed."""
    encode, encoded = Codec.encode_utterance, list[int]()
    monkeypatch.setattr(Codec, "encode_utterance", lambda *given: encoded.append(1) or encode(*given))
    write_codes(tmp_path / "one", "codec_lm", features, codec, "c" * 64)
    assert len(encoded) == len(features)
    write_codes(tmp_path / "two", "codec_lm", features, codec, "c" * 64)
    assert len(encoded) == len(features)
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    write_codes(tmp_path / "other", "codec_lm", features, codec, "d" * 64)
    assert len(encoded) == 2 * len(features)


def test_several_processes_write_what_one_does(
    features: FeatureStore, codec: Codec, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sonorant.features.computing.FEW", 0)
    for processes in (1, 2):
        write_codes(tmp_path / str(processes), "codec_lm", features, codec, f"{processes}" * 64, processes)
    for name in ("objects.npy", "frames.npy"):
        assert (tmp_path / "1" / name).read_bytes() == (tmp_path / "2" / name).read_bytes()


def test_a_missing_shard_of_codes_is_named_with_the_command_that_makes_it(
    features: FeatureStore, codec: Codec, tmp_path: Path
) -> None:
    own = FeatureStore.open(own_copy(features.path, tmp_path))
    write_codes(tmp_path / "codes", "codec_lm", own, codec, "e" * 64)
    codes = CodeStore.open(tmp_path / "codes", own)
    lost = Path(own.place.store) / object_name(CodeStore.objects_of(codes.path)[0, 0].tobytes().hex())
    lost.unlink()
    with pytest.raises(SonorantError, match=r"no such file; run: dvc repro --force --single-item train_waveform$"):
        codes.verify()
    write_codes(tmp_path / "codes", "codec_lm", own, codec, "e" * 64)
    assert lost.exists()


def test_codes_are_keyed_by_all_code_that_makes_them() -> None:
    """Includes inherited code."""
    names = {module.__name__ for module in modules_of(SourceCodec)}
    assert names == {"sonorant.extras.codec_lm.codec", "sonorant.extras.codec_lm.source_codec"}
