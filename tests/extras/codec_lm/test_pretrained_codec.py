"""Codecs of transformers, tiny and of random weights, saved by transformers itself and loaded by the real code."""

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
from sonorant.extras.codec_lm.pretrained_codec import KINDS, PretrainedCodec, check_pretrained, take_pretrained
from sonorant.extras.codec_lm.saved import load_codec
from sonorant.layers.model_folder import describe, save_model
from sonorant.layers.quantized import quantizable
from tests.support.imports import ROOT

transformers = pytest.importorskip("transformers")

AUDIO = MelConfig(sample_rate=8000, n_fft=80, hop=20, n_mels=20, f_min=0.0, f_max=4000.0)
FRAME = 40
"""Samples of a code frame, of all of them: two mel frames."""


SIZES: dict[str, dict[str, Any]] = {
    "dac": {
        "encoder_hidden_size": 4, "downsampling_ratios": [2, 4, 5], "decoder_hidden_size": 32, "n_codebooks": 3,
        "codebook_dim": 4,
    },
    "encodec": {
        "target_bandwidths": [0.8, 1.6, 3.2], "hidden_size": 16, "num_filters": 4, "upsampling_ratios": [5, 4, 2],
        "num_lstm_layers": 1,
    },
    "mimi": {
        "hidden_size": 16, "num_filters": 4, "upsampling_ratios": [5, 4], "num_hidden_layers": 1, "head_dim": 8,
        "num_attention_heads": 2, "num_key_value_heads": 2, "intermediate_size": 16, "codebook_dim": 8,
        "vector_quantization_hidden_dimension": 8, "num_quantizers": 4, "upsample_groups": 16, "sliding_window": 10,
    },
}  # fmt: skip


def itself(kind: str) -> Any:
    """The class of transformers."""
    return getattr(transformers, KINDS[kind].model)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A folder of each kind, as a hub holds it."""
    folders = {}
    for kind, sizes in SIZES.items():
        torch.manual_seed(0)
        model = itself(kind)(itself(kind).config_class(**sizes, codebook_size=16, sampling_rate=8000))
        with torch.no_grad():
            for name, buffer in model.named_buffers():
                if name.endswith(("embed", "embed_sum")):
                    buffer.normal_(std=0.02 if kind == "encodec" else 1.0)  # codebooks start as zeros, all codes alike
            for name, parameter in model.named_parameters():
                if kind == "dac" and name.startswith("decoder") and name.endswith("bias"):
                    parameter.normal_(std=0.1)  # they start as zeros, and padding that is heard would not be
        folders[kind] = tmp_path_factory.mktemp(kind)
        model.save_pretrained(folders[kind])
    return folders


def noise(samples: int) -> np.ndarray:
    return (0.3 * np.random.default_rng(0).standard_normal(samples)).astype(np.float32)


def taken(folder: Path, codebooks: int = 2) -> PretrainedCodec:
    return take_pretrained(str(folder), AUDIO, codebooks)[0]


@pytest.fixture(params=SIZES)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def codec(saved: dict[str, Path], kind: str) -> PretrainedCodec:
    return taken(saved[kind])


def heard(codec: PretrainedCodec, samples: np.ndarray) -> np.ndarray:
    return codec.encode_utterance(np.zeros((20, 0), np.float32), samples)


def test_every_kind_is_tested() -> None:
    assert set(SIZES) == set(KINDS)


def test_samples_become_codes_and_codes_samples(codec: PretrainedCodec) -> None:
    codes = heard(codec, noise(7 * FRAME + 3))
    assert codes.shape == (8, 2)
    assert (codec.codebooks, codec.codes, codec.stride, codec.samples_per_frame) == (2, 16, 2, FRAME)
    assert set(np.unique(codes)) <= set(range(16)) and len(np.unique(codes, axis=0)) > 1
    samples = codec.decode(torch.from_numpy(codes)[None])
    assert (samples.shape, samples.dtype) == ((1, 8 * FRAME), torch.float32) and samples.abs().max() > 0
    assert codec.silence.shape == (2,) and codec.silence.dtype == torch.int64


def test_it_says_what_transformers_itself_says(saved: dict[str, Path], kind: str) -> None:
    codec, model = taken(saved[kind], codebooks=3), itself(kind).from_pretrained(saved[kind]).eval()
    samples = noise(10 * FRAME)
    with torch.no_grad():
        given = torch.from_numpy(samples)[None, None]
        wanted = model.encode(given, bandwidth=3.2) if kind == "encodec" else model.encode(given)
        codes_GF = (wanted.audio_codes[0] if kind == "encodec" else wanted.audio_codes)[0]
        codes_BGF = codes_GF[None, :3]
        decoded = model.decode(codes_BGF[None], [None]) if kind == "encodec" else model.decode(audio_codes=codes_BGF)
        samples_S = decoded.audio_values.flatten()
        ours_S = codec.decode(codes_BGF.transpose(1, 2))[0]
    assert np.array_equal(heard(codec, samples), codes_GF[:3].T.numpy())
    torch.testing.assert_close(ours_S[: len(samples_S)], samples_S[: len(ours_S)], atol=1e-6, rtol=1e-5)


def test_a_row_is_as_it_would_be_alone(codec: PretrainedCodec) -> None:
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


def test_kept_in_a_trained_folder_it_needs_no_hub(saved: dict[str, Path], kind: str, tmp_path: Path) -> None:
    codec, about = take_pretrained(str(saved[kind]), AUDIO, 2)
    header = {"symbols": [], "speakers": [], "frontend": {}, "mel_mean": 0.0, "mel_std": 1.0, "audio": asdict(AUDIO)}
    config = CodecConfig(
        channels=8, expansion=1, kernel=3, encoder_blocks=1, decoder_blocks=1, stride=2, codebooks=2, levels=[4],
        codebook_dropout=0.0, pretrained="somewhere",
    )  # fmt: skip
    description = describe("codec", config, header) | {"pretrained": about}
    save_model(tmp_path / "vocoder", codec.state_dict(), json.loads(json.dumps(description)))
    again, description = load_codec(tmp_path / "vocoder")
    assert isinstance(again, PretrainedCodec) and not again.training
    codes = heard(codec, noise(5 * FRAME))
    assert np.array_equal(heard(again, noise(5 * FRAME)), codes)
    assert torch.equal(again.decode(torch.from_numpy(codes)[None]), codec.decode(torch.from_numpy(codes)[None]))
    assert (again.receptive_field, again.stride) == (codec.receptive_field, codec.stride)
    assert description["pretrained"]["revision"].startswith("sha256 ")
    assert quantizable(again) == []


@pytest.mark.parametrize(
    ("audio", "codebooks", "words"),
    [
        ({"sample_rate": 16000}, 2, "speaks at 8000 Hz and the features are at 16000: set audio.sample_rate: 8000"),
        ({"hop": 16}, 2, "is 40 samples, no multiple of a mel frame's 16: set audio.hop to a divisor of 40"),
        ({}, 4, "codec.codebooks is 4: .* has 1 to 3 codebooks"),
    ],
)
def test_one_that_does_not_fit_is_refused(
    saved: dict[str, Path], audio: dict[str, int], codebooks: int, words: str
) -> None:
    with pytest.raises(SonorantError, match=words):
        take_pretrained(str(saved["dac"]), replace(AUDIO, **audio), codebooks)


def test_codes_that_a_token_store_cannot_hold_are_refused(tmp_path: Path) -> None:
    config = SIZES["mimi"] | {"model_type": "mimi", "codebook_size": 65536, "sampling_rate": 8000}
    (tmp_path / "config.json").write_text(json.dumps(config))
    many = "has 65536 codes a stream, and a token store holds 32768: take one of fewer"
    with pytest.raises(SonorantError, match=many):
        check_pretrained(str(tmp_path), AUDIO, 2)


def test_a_folder_of_another_kind_or_of_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(SonorantError, match=r"is a bert; allowed: dac, encodec, mimi"):
        take_pretrained(str(tmp_path), AUDIO, 2)
    (tmp_path / "config.json").unlink()
    with pytest.raises(SonorantError, match=r"codec.pretrained: .* cannot be loaded"):
        take_pretrained(str(tmp_path), AUDIO, 2)


def test_pickled_weights_are_not_read(saved: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes((saved["dac"] / "config.json").read_bytes())
    torch.save(itself("dac").from_pretrained(saved["dac"]).state_dict(), tmp_path / "pytorch_model.bin")
    with pytest.raises(SonorantError, match=r"cannot be loaded"):
        take_pretrained(str(tmp_path), AUDIO, 2)


def test_codecs_of_our_own_do_without_transformers() -> None:
    absent = "import sys; sys.modules['transformers'] = None"
    program = f"{absent}; import sonorant.layers.model_folder, sonorant.extras.codec_lm.language_model_training"
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT)
