"""The token store: the codes of an utterance as its codec makes them, and refused where they are not those of the
features."""

from __future__ import annotations

import json
import math
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from sonorant.data.codes import CODES, FRAMES, CodeStore, write_codes, write_no_codes
from sonorant.data.features import FeatureStore
from sonorant.errors import SonorantError
from sonorant.families.codec_lm.codec import Codec, CodecConfig
from tests.support.tiny_training import tiny_features

SIZES = CodecConfig(
    channels=8, expansion=2, kernel=3, encoder_blocks=1, decoder_blocks=1, stride=2, codebooks=2, levels=[4, 3],
    codebook_dropout=0.0,
    pretrained=None,
)  # fmt: skip


@pytest.fixture(scope="module")
def features(tmp_path_factory: pytest.TempPathFactory) -> FeatureStore:
    return FeatureStore.open(tiny_features(tmp_path_factory.mktemp("codes")))


@pytest.fixture(scope="module")
def codec(features: FeatureStore) -> Codec:
    torch.manual_seed(0)
    audio = features.audio
    made = Codec(
        SIZES, mels=audio.n_mels, n_fft=audio.n_fft, hop=audio.hop, mel_mean=features.header["mel_mean"]
    ).eval()
    with torch.no_grad():
        made.encoder.out.weight *= 4.0
    return made


@pytest.fixture
def store(features: FeatureStore, codec: Codec, tmp_path: Path) -> Path:
    write_codes(tmp_path / "codes", "codec_lm", features, codec, "a" * 64)
    return tmp_path / "codes"


def test_codes_are_those_of_each_utterance(store: Path, features: FeatureStore, codec: Codec) -> None:
    codes = CodeStore.open(store, features)
    assert len(codes) == len(features)
    assert (codes.codebooks, codes.codes_per_stream, codes.stride) == (2, 12, 2)
    for i in range(len(features)):
        found = codes.codes(i)
        assert found.dtype == np.int16
        assert found.shape == (-(-int(features.frames[i]) // 2), 2) == (codes.frames[i], 2)
        mel = torch.from_numpy(features.mel(i).T.astype(np.float32))
        assert np.array_equal(found, codec.encode(mel[None])[0].numpy())
    assert codes.codec["silence"] == codec.silence.tolist()
    assert codes.codec["sha256"] == "a" * 64


def test_the_report_counts_what_is_there(store: Path, features: FeatureStore) -> None:
    codes = CodeStore.open(store, features)
    everything = np.concatenate([codes.codes(i) for i in range(len(codes))])
    rate = features.audio.sample_rate / (2 * features.audio.hop)
    assert codes.report["frames_per_second"] == rate
    assert codes.report["bits_per_second"] == pytest.approx(2 * math.log2(12) * rate, abs=0.1)
    for stream in range(2):
        assert codes.report["use"][stream] == pytest.approx(len(np.unique(everything[:, stream])) / 12, abs=1e-4)
        assert 0.0 < codes.report["entropy_bits"][stream] <= math.log2(12)


def test_the_same_again_is_the_same_to_the_byte(
    store: Path, features: FeatureStore, codec: Codec, tmp_path: Path
) -> None:
    write_codes(tmp_path / "again", "codec_lm", features, codec, "a" * 64)
    assert {file.name: file.read_bytes() for file in store.iterdir()} == {
        file.name: file.read_bytes() for file in (tmp_path / "again").iterdir()
    }


def test_workers_open_it_for_themselves(store: Path, features: FeatureStore) -> None:
    codes = CodeStore.open(store, features)
    assert np.array_equal(pickle.loads(pickle.dumps(codes)).codes(3), codes.codes(3))


def test_codes_of_other_features_are_refused(store: Path, features: FeatureStore, tmp_path: Path) -> None:
    other = Path(shutil.copytree(features.path, tmp_path / "other"))
    index = json.loads((other / "index.json").read_text())
    index[0]["split"] = "test"
    (other / "index.json").write_text(json.dumps(index))
    with pytest.raises(SonorantError, match=r"codes of other features than .*other; run: dvc repro train_waveform"):
        CodeStore.open(store, FeatureStore.open(other))


def test_a_family_without_codes_says_so_and_is_always_the_same(features: FeatureStore, tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_no_codes(tmp_path / name, "parallel")
    assert [file.name for file in (tmp_path / "one").iterdir()] == ["header.json"]
    assert (tmp_path / "one/header.json").read_bytes() == (tmp_path / "two/header.json").read_bytes()
    assert json.loads((tmp_path / "one/header.json").read_text()) == {"version": 1, "family": "parallel"}
    with pytest.raises(SonorantError, match=r"holds no codes, .* voice.family parallel; run: dvc repro train_waveform"):
        CodeStore.open(tmp_path / "one", features)


@pytest.mark.parametrize("damaged", [CODES, FRAMES])
def test_truncated_arrays_are_refused(store: Path, features: FeatureStore, damaged: str) -> None:
    whole = (store / damaged).read_bytes()
    (store / damaged).write_bytes(whole[: len(whole) // 2])
    with pytest.raises(SonorantError, match=r"damaged.*; run: dvc repro train_waveform"):
        CodeStore.open(store, features)


def test_arrays_of_another_store_are_refused(store: Path, features: FeatureStore) -> None:
    frames = np.load(store / FRAMES)
    np.save(store / FRAMES, np.append(frames, 3))
    with pytest.raises(SonorantError, match="do not belong together"):
        CodeStore.open(store, features)


def test_another_version_is_refused(store: Path, features: FeatureStore) -> None:
    header = json.loads((store / "header.json").read_text())
    (store / "header.json").write_text(json.dumps(header | {"version": 99}))
    with pytest.raises(SonorantError, match="token store of version 99, this code reads 1"):
        CodeStore.open(store, features)


def test_a_codec_of_another_frame_rate_than_it_says_is_refused(
    features: FeatureStore, codec: Codec, tmp_path: Path
) -> None:
    class Slower(Codec):
        def encode_utterance(self, mel_MT, samples_S):  # type: ignore[no-untyped-def]
            return super().encode_utterance(mel_MT, samples_S)[:-1]

    slower = Slower(SIZES, mels=features.audio.n_mels, n_fft=features.audio.n_fft, hop=features.audio.hop).eval()
    with pytest.raises(SonorantError, match=rf"utterance '{features.ids[0]}'.*cannot be used with these features"):
        write_codes(tmp_path / "codes", "codec_lm", features, slower, "a" * 64)
    assert not (tmp_path / "codes").exists()
