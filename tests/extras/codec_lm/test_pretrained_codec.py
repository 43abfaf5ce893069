import json
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from sonorant.audio.mel import MelConfig
from sonorant.errors import SonorantError
from sonorant.extras.codec_lm.codec import CodecConfig
from sonorant.extras.codec_lm.pretrained_codec import PretrainedCodec, take_pretrained
from sonorant.extras.codec_lm.saved import load_codec
from sonorant.layers.model_folder import describe, save_model
from sonorant.layers.quantized import quantizable
from tests.support.imports import ROOT

transformers = pytest.importorskip("transformers")

AUDIO = MelConfig(sample_rate=8000, n_fft=80, hop=20, n_mels=20, f_min=0.0, f_max=4000.0)
FRAME = 40
"""Samples per code frame: two mel frames."""
SIZES: dict[str, Any] = {
    "encoder_hidden_size": 4, "downsampling_ratios": [2, 4, 5], "decoder_hidden_size": 32, "n_codebooks": 3,
    "codebook_dim": 4, "codebook_size": 16, "sampling_rate": 8000,
}  # fmt: skip


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as on a hub."""
    torch.manual_seed(0)
    model = transformers.DacModel(transformers.DacConfig(**SIZES))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.startswith("decoder") and name.endswith("bias"):
                parameter.normal_(std=0.1)  # initialised as zeros, which would hide padding
    folder = tmp_path_factory.mktemp("dac")
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def codec(saved: Path) -> PretrainedCodec:
    return take_pretrained(str(saved), AUDIO, 2)[0]


def heard(codec: PretrainedCodec, frames: int) -> np.ndarray:
    samples = 0.3 * np.random.default_rng(0).standard_normal(frames * FRAME).astype(np.float32)
    return codec.encode_utterance(np.zeros((20, 0), np.float32), samples[: frames * FRAME - 3])


def test_codes_and_samples_are_those_of_transformers(saved: Path, codec: PretrainedCodec) -> None:
    model, codes_FG = transformers.DacModel.from_pretrained(saved).eval(), heard(codec, 10)
    samples_S = np.random.default_rng(0).standard_normal(10 * FRAME).astype(np.float32) * np.float32(0.3)
    samples_S[-3:] = 0
    with torch.no_grad():
        codes_BGF = model.encode(torch.from_numpy(samples_S)[None, None]).audio_codes[:, :2]
        wanted_S = model.decode(audio_codes=codes_BGF).audio_values.flatten()
        decoded_BS = codec.decode(torch.from_numpy(codes_FG)[None])
    assert np.array_equal(codes_FG, codes_BGF[0].T.numpy()) and len(np.unique(codes_FG, axis=0)) > 1
    assert (decoded_BS.shape, decoded_BS.dtype) == ((1, 10 * FRAME), torch.float32)
    torch.testing.assert_close(decoded_BS[0, : len(wanted_S)], wanted_S, atol=1e-6, rtol=1e-5)
    assert (codec.codebooks, codec.codes, codec.stride, codec.samples_per_frame) == (2, 16, 2, FRAME)
    assert codec.silence.shape == (2,) and codec.silence.dtype == torch.int64


def test_a_row_equals_itself_alone(codec: PretrainedCodec) -> None:
    codes_BFG = torch.randint(16, (3, 9, 2), generator=torch.Generator().manual_seed(0))
    samples = codec.decode(codes_BFG, torch.tensor([9, 4, 0]))
    torch.testing.assert_close(samples[0], codec.decode(codes_BFG[:1])[0], atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(samples[1, : 4 * FRAME], codec.decode(codes_BFG[1:2, :4])[0], atol=1e-6, rtol=1e-5)
    assert not samples[1, 4 * FRAME :].any() and not samples[2].any()


def test_parts_with_the_measured_context_equal_the_whole(codec: PretrainedCodec) -> None:
    context = codec.receptive_field
    assert 0 < context < 64
    codes_BFG = torch.randint(16, (1, 60 + 2 * context, 2), generator=torch.Generator().manual_seed(1))
    first, last = 30 + context, 36 + context
    whole = codec.decode(codes_BFG)[0, first * FRAME : last * FRAME]
    part = codec.decode(codes_BFG[:, first - context : last + context])[0, context * FRAME :][: len(whole)]
    assert (part - whole).abs().max() < 1e-3 * whole.abs().max()


def test_a_trained_folder_holds_all_of_it(saved: Path, codec: PretrainedCodec, tmp_path: Path) -> None:
    about = take_pretrained(str(saved), AUDIO, 2)[1]
    header = {"symbols": [], "speakers": [], "frontend": {}, "mel_mean": 0.0, "mel_std": 1.0, "audio": asdict(AUDIO)}
    description = describe("codec", CodecConfig(pretrained="somewhere"), header) | {"pretrained": about}
    save_model(tmp_path / "vocoder", codec.state_dict(), json.loads(json.dumps(description)))
    again, description = load_codec(tmp_path / "vocoder")
    assert isinstance(again, PretrainedCodec) and not again.training
    codes = heard(codec, 5)
    assert np.array_equal(heard(again, 5), codes)
    assert torch.equal(again.decode(torch.from_numpy(codes)[None]), codec.decode(torch.from_numpy(codes)[None]))
    assert (again.receptive_field, again.stride) == (codec.receptive_field, codec.stride)
    assert description["pretrained"]["revision"].startswith("sha256 ")
    assert quantizable(again) == []


@pytest.mark.parametrize(
    ("config", "audio", "codebooks", "words"),
    [
        ({}, {"sample_rate": 16000}, 2, "the features have 16000 Hz; set audio.sample_rate to 8000"),
        ({}, {"hop": 16}, 2, "has 40 samples, which is not a multiple of audio.hop 16"),
        ({}, {}, 4, "codec.codebooks must be 1 to 3 for .*, not 4"),
        ({"codebook_size": 65536}, {}, 2, "codes per codebook, but a token store holds at most 32768"),
        ({"model_type": "bert"}, {}, 2, "is a bert model; use a DAC model"),
        ({"model_type": None}, {}, 2, "codec.pretrained: .* cannot be loaded"),
    ],
    ids=["rate", "hop", "codebooks", "codes", "another model", "no model"],
)
def test_a_codec_that_does_not_fit_is_refused(
    config: dict[str, Any], audio: dict[str, int], codebooks: int, words: str, tmp_path: Path
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(SIZES | {"model_type": "dac"} | config))
    with pytest.raises(SonorantError, match=words):
        take_pretrained(str(tmp_path), replace(AUDIO, **audio), codebooks)


def test_pickled_weights_are_not_read(saved: Path, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes((saved / "config.json").read_bytes())
    torch.save(transformers.DacModel.from_pretrained(saved).state_dict(), tmp_path / "pytorch_model.bin")
    with pytest.raises(SonorantError, match=r"cannot be loaded"):
        take_pretrained(str(tmp_path), AUDIO, 2)


def test_a_trained_codec_needs_no_transformers() -> None:
    absent = "import sys; sys.modules['transformers'] = None"
    program = f"{absent}; import sonorant.layers.model_folder, sonorant.extras.codec_lm.language_model_training"
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT)
