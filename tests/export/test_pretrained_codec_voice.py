import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from sonorant.errors import SonorantError
from sonorant.export.bundling import export_voice
from sonorant.export.onnx_graph import ExportConfig
from sonorant.export.quantization.quantize import QuantizeConfig, decide, post_train
from sonorant.extras.codec_lm.codec import CodecConfig
from sonorant.extras.codec_lm.codec_stage import take_codec
from sonorant.extras.codec_lm.saved import load_codec
from sonorant.features.codes import CodeStore, write_codes
from sonorant.features.feature_store import FeatureStore
from sonorant.files import read_json, sha256_file
from sonorant.layers.model_folder import save_model
from sonorant.speech.voice import Voice
from sonorant.training.worker import recipe_of
from tasks.check_params import check
from tasks.params import load
from tasks.train_waveform import main as train_vocoder
from testbed.tiny_training import settings, tiny_features, tiny_job
from tests.support.imports import ROOT
from tests.support.settings import project_settings
from tests.support.tiny_voice import CORPUS, DECODING

transformers = pytest.importorskip("transformers")


def saved(folder: Path) -> Path:
    """Tiny random DAC with 320 samples per frame and an odd stride."""
    torch.manual_seed(0)
    sizes = {"encoder_hidden_size": 4, "downsampling_ratios": [4, 5, 4, 4], "decoder_hidden_size": 32}
    config = transformers.DacConfig(**sizes, n_codebooks=3, codebook_size=16, codebook_dim=4, sampling_rate=8000)
    model = transformers.DacModel(config)
    for layer in (model.decoder.conv1, *(block.conv_t1 for block in model.decoder.block)):
        torch.nn.init.normal_(layer.bias, std=0.1)
    model.save_pretrained(folder / "dac")
    return folder / "dac"


def config_of(pretrained: Path) -> CodecConfig:
    return CodecConfig(**settings("codec")[0] | {"pretrained": str(pretrained)})


@pytest.mark.long
def test_a_dac_is_taken_learned_from_exported_and_heard(tmp_path: Path) -> None:
    features = tiny_features(tmp_path)
    store = FeatureStore.open(features)
    take_codec(config_of(saved(tmp_path)), features, tmp_path / "vocoder", {})
    codec, _ = load_codec(tmp_path / "vocoder")
    write_codes(tmp_path / "codes", "codec_lm", store, codec, sha256_file(tmp_path / "vocoder" / "weights.pt"))
    assert CodeStore.open(tmp_path / "codes", store).stride == 5
    recipe = recipe_of(replace(tiny_job("language_model", features, tmp_path), codes=str(tmp_path / "codes")))
    provenance = {"provenance": {"git_commit": "0" * 40, "data": "1" * 64, "steps": 0}}
    save_model(tmp_path / "speech", recipe.model.state_dict(), recipe.description() | provenance)
    export = load("export", ExportConfig, ROOT / "params.yaml")
    export_voice(tmp_path / "speech", tmp_path / "vocoder", tmp_path / "voice", CORPUS, export, DECODING)

    voice = Voice.load(tmp_path / "voice")
    codes_BFG, lengths_B = np.random.default_rng(0).integers(0, 16, (2, 11, 2)), np.array([11, 6])
    wanted_BS = codec.decode(torch.from_numpy(codes_BFG), torch.from_numpy(lengths_B)).numpy()
    np.testing.assert_allclose(voice.speaking.runtime.vocode(codes_BFG, lengths_B), wanted_BS, atol=1e-5)
    assert np.abs(wanted_BS).max() > 1e-3
    tokens_BN3 = store.tokens(0).astype(np.int64)[None]
    one = np.ones(1)
    spoken = voice.synthesize(tokens_BN3, np.array([tokens_BN3.shape[1]]), 0 * one, one)
    assert spoken.lengths[0] > 0 and spoken.lengths[0] % 320 == 0 and np.abs(spoken.samples).max() > 1e-3


def test_taking_one_is_kept_as_a_run_like_any_stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = []

    @contextmanager
    def kept(name: str, params: dict[str, Any], tags: dict[str, str]) -> Iterator[None]:
        yield
        runs.append((name, params["codec"]["pretrained"], tags["features"]))

    monkeypatch.setattr("tasks.train_waveform.stage_run", kept)
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "dvc.yaml", "dvc.yaml")
    sections = project_settings()
    sections["voice"]["family"], sections["codec"]["pretrained"] = "codec_lm", str(saved(tmp_path))
    Path("params.yaml").write_text(yaml.safe_dump(sections), encoding="utf-8")
    words = f"--features {tiny_features(tmp_path)} --runs runs --out models/waveform --codes data/codes"
    monkeypatch.setattr(sys, "argv", ["train_vocoder", *words.split()])
    train_vocoder()
    assert runs == [
        ("train_codec", str(tmp_path / "dac"), read_json(Path("models/waveform/model.json"))["provenance"]["data"])
    ]
    assert CodeStore.open(Path("data/codes"), FeatureStore.open(tmp_path / "features")).stride == 5


def test_a_dac_stays_as_it_is_where_models_are_quantised(tmp_path: Path) -> None:
    features = tiny_features(tmp_path)
    take_codec(config_of(saved(tmp_path)), features, tmp_path / "vocoder", {})
    settled = load("quantize", QuantizeConfig, ROOT / "params.yaml")
    config = replace(settled, calibration_utterances=2, sensitivity_utterances=2)
    ptq = post_train("codec", tmp_path / "vocoder", features, settings("codec")[1], config)
    shipped, report = decide(ptq, None, config)
    assert (shipped, report["sensitivity"]) == ("ptq", [])
    assert report["sentence"].endswith("; a pretrained model, which stays float")
    assert (ptq.as_ptq.loss == ptq.as_float.loss).all() and (ptq.as_float.loss > 0).all()


def test_one_that_does_not_fit_is_refused_before_anything_is_trained(tmp_path: Path) -> None:
    sections: dict[str, Any] = project_settings()
    sections["voice"]["family"], sections["codec"]["pretrained"] = "codec_lm", str(saved(tmp_path))
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(sections), encoding="utf-8")
    with pytest.raises(SonorantError, match=f"features have {sections['audio']['sample_rate']}"):
        check(tmp_path / "params.yaml")
