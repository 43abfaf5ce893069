"""Quantisation by its definition; the codec under padding, in parts and with codebooks left out."""

import dataclasses
import math
from pathlib import Path

import pytest
import torch

from sonorant.errors import SonorantError
from sonorant.extras.codec_lm.codec import Codec, CodecConfig
from sonorant.extras.codec_lm.saved import load_codec
from sonorant.families.parallel.saved import load_vocoder
from sonorant.layers.fsq import MOST_LEVELS, FiniteScalarQuantizer
from sonorant.layers.model_folder import build, describe, save_model
from sonorant.layers.quantized import quantizable, quantize_layers

CONFIG = CodecConfig(
    channels=16, expansion=2, kernel=5, encoder_blocks=2, decoder_blocks=2, stride=2, codebooks=3, levels=[4, 3, 2],
    codebook_dropout=0.5, pretrained=None,
)  # fmt: skip
MELS, HOP = 10, 16
LEVELS = [(8, 5, 5, 5), (2,), (3, 4), (7, 2, 6)]


def codec_of(seed: int = 0, **changes: object) -> Codec:
    """In evaluation mode, with random weights: loud enough to use many codes, its blocks to be heard from afar."""
    torch.manual_seed(seed)
    config = dataclasses.replace(CONFIG, **changes)  # type: ignore[arg-type]
    codec = Codec(config, mels=MELS, n_fft=64, hop=HOP, mel_mean=-5.0, mel_std=2.0).eval()
    with torch.no_grad():
        codec.encoder.out.weight *= 4.0
        for name, parameter in codec.named_parameters():
            if name.endswith(".scale"):
                parameter.fill_(1.0)
    return codec


def mel_of(rows: int, frames: int) -> torch.Tensor:
    return torch.randn(rows, MELS, frames, generator=torch.Generator().manual_seed(1)) * 2.0 - 5.0


@pytest.mark.parametrize("levels", LEVELS)
def test_every_code_is_a_vector_of_its_own_and_is_found_again(levels: tuple[int, ...]) -> None:
    quantizer = FiniteScalarQuantizer(levels)
    codes_K = torch.arange(quantizer.codes)
    values_KD = quantizer.to_values(codes_K)
    assert quantizer.codes == len(values_KD.unique(dim=0)) == math.prod(levels)
    assert values_KD.abs().max() == 1.0
    assert torch.equal(quantizer.to_codes(values_KD), codes_K)


@pytest.mark.parametrize("levels", LEVELS)
def test_vectors_of_any_size_become_codes_and_all_levels_are_reached(levels: tuple[int, ...]) -> None:
    quantizer = FiniteScalarQuantizer(levels)
    generator = torch.Generator().manual_seed(0)
    values = quantizer(torch.randn(200_000, len(levels), generator=generator) * 3.0)
    codes = quantizer.to_codes(values)
    assert int(codes.min()) >= 0 and int(codes.max()) < quantizer.codes
    torch.testing.assert_close(quantizer.to_values(codes), values)
    for place, count in enumerate(levels):
        assert len(values[:, place].unique()) == count
    assert quantizer.to_codes(quantizer(torch.full((1, len(levels)), 1e9))).tolist() == [quantizer.codes - 1]


def test_the_most_levels_there_may_be_are_not_left() -> None:
    for levels in (MOST_LEVELS, MOST_LEVELS - 1):
        quantizer = FiniteScalarQuantizer((levels,))
        ends = quantizer.to_codes(quantizer(torch.tensor([[-1e9], [1e9]])))
        assert ends.tolist() == [0, levels - 1]


def test_gradients_pass_the_rounding_as_if_it_were_not_there() -> None:
    quantizer = FiniteScalarQuantizer((8, 5, 3))
    x = torch.randn(50, 3, generator=torch.Generator().manual_seed(0), requires_grad=True)
    weight = torch.randn(50, 3, generator=torch.Generator().manual_seed(1))
    (quantizer(x) * weight).sum().backward()
    smooth = ((x + quantizer.shift_D).tanh() * quantizer.reach_D - quantizer.offset_D) / -quantizer.lowest_D
    wanted = torch.autograd.grad((smooth * weight).sum(), x)[0]
    torch.testing.assert_close(x.grad, wanted)
    assert x.grad is not None and (x.grad != 0).all()


@pytest.mark.parametrize("stride", [1, 2, 3])
def test_a_row_is_as_it_would_be_alone(stride: int) -> None:
    codec = codec_of(stride=stride)
    mel_BMT, lengths = mel_of(4, 23), [23, 17, 8, 1]
    with torch.no_grad():
        codes_BFG = codec.encode(mel_BMT, torch.tensor(lengths))
        assert codes_BFG.shape == (4, -(-23 // stride), 3)
        frames = [-(-length // stride) for length in lengths]
        for row, count in enumerate(frames):  # noise, so that padding that is heard would tell
            codes_BFG[row, count:] = torch.randint(codec.codes, codes_BFG[row, count:].shape)
        samples_BS = codec.decode(codes_BFG, torch.tensor(frames))
        assert samples_BS.shape == (4, codes_BFG.shape[1] * codec.samples_per_frame)
        for row, (length, count) in enumerate(zip(lengths, frames, strict=True)):
            alone_FG = codec.encode(mel_BMT[row : row + 1, :, :length])[0]
            assert torch.equal(codes_BFG[row, :count], alone_FG)
            heard = samples_BS[row, : count * codec.samples_per_frame]
            torch.testing.assert_close(heard, codec.decode(alone_FG[None])[0], atol=1e-6, rtol=1e-5)
    assert len(codes_BFG[0].unique(dim=0)) > 5, "codes that hardly change would be equal under any padding"


@pytest.mark.parametrize("stride", [1, 2, 3])
def test_parts_with_context_equal_the_whole_and_less_does_not(stride: int) -> None:
    codec = codec_of(stride=stride)
    frames, first, last = 60, 25, 33
    codes_BFG = torch.randint(codec.codes, (1, frames, 3), generator=torch.Generator().manual_seed(0))

    def part(receptive_field: int) -> torch.Tensor:
        start = first - receptive_field
        samples = codec.decode(codes_BFG[:, start : last + receptive_field])[0]
        return samples[receptive_field * codec.samples_per_frame :][: (last - first) * codec.samples_per_frame]

    with torch.no_grad():
        whole = codec.decode(codes_BFG)[0, first * codec.samples_per_frame : last * codec.samples_per_frame]
        torch.testing.assert_close(part(codec.receptive_field), whole, atol=1e-6, rtol=1e-5)
        assert (part(codec.receptive_field - 2) - whole).abs().max() > 2e-5


def test_forward_is_decoding_what_was_encoded_and_leaves_nothing_out_where_one_listens() -> None:
    codec, mel_BMT = codec_of(), mel_of(8, 21)
    with torch.no_grad():
        wanted = codec.decode(codec.encode(mel_BMT))[:, : 21 * HOP]
        torch.testing.assert_close(codec(mel_BMT), wanted, atol=1e-6, rtol=1e-5)


def test_all_parameters_learn_and_the_same_seed_leaves_out_the_same_codebooks() -> None:
    codec, mel_BMT = codec_of().train(), mel_of(6, 20)
    torch.manual_seed(3)
    first = codec(mel_BMT)
    first.square().sum().backward()
    assert all(parameter.grad is not None and parameter.grad.abs().max() > 0 for parameter in codec.parameters())
    torch.manual_seed(3)
    assert torch.equal(codec(mel_BMT), first)


def test_later_streams_are_left_out_of_about_as_many_rows_as_asked_for_and_the_first_of_none() -> None:
    codec = codec_of()
    torch.manual_seed(0)
    kept_BG = codec._kept(torch.ones(4000, 1, 3, 1))[:, 0, :, 0]
    assert (kept_BG[:, 0] == 1).all()
    assert (kept_BG[:, 1] >= kept_BG[:, 2]).all()
    assert (kept_BG == 0).float().mean(0).tolist() == pytest.approx([0, 0.25, 0.5], abs=0.04)


def test_silence_is_what_a_long_silence_is_encoded_as() -> None:
    codec = codec_of()
    with torch.no_grad():
        codes_FG = codec.encode(torch.full((1, MELS, 200), -11.5129))[0]
    assert codec.silence.dtype == torch.int64
    assert (codes_FG[30:70] == codec.silence).all()


def test_int8_touches_the_decoder_alone_and_so_no_code_changes() -> None:
    codec, mel_BMT = codec_of(), mel_of(2, 20)
    names = quantizable(codec)
    assert names and all(name.startswith("decoder.") for name in names)
    with torch.no_grad():
        before, heard = codec.encode(mel_BMT), codec(mel_BMT)
        quantize_layers(codec, names)
        assert torch.equal(codec.eval().encode(mel_BMT), before)
        assert (codec(mel_BMT) - heard).abs().max() > 0


def test_saved_and_loaded_it_is_the_same(tmp_path: Path) -> None:
    audio = {"sample_rate": 8000, "n_fft": 64, "hop": HOP, "n_mels": MELS, "f_min": 0.0, "f_max": 4000.0}
    header = {"audio": audio, "symbols": ["a"], "speakers": ["s"], "frontend": {}, "mel_mean": -5.0, "mel_std": 2.0}
    description = describe("codec", CONFIG, header)
    torch.manual_seed(0)
    save_model(tmp_path / "codec", build(description).state_dict(), description)
    (codec, _), (again, _) = load_codec(tmp_path / "codec"), load_codec(tmp_path / "codec")
    codes = codec.encode_utterance(mel_of(1, 9)[0].numpy(), mel_of(1, 9)[0, 0].numpy())
    assert codes.shape == (5, 3)
    assert torch.equal(codec.decode(torch.from_numpy(codes)[None]), again.decode(torch.from_numpy(codes)[None]))
    with pytest.raises(SonorantError, match="holds a model of kind 'codec', not 'vocoder'"):
        load_vocoder(tmp_path / "codec")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"kernel": 4}, "odd"),
        ({"levels": []}, "at least 2 each"),
        ({"levels": [8, 1]}, "at least 2 each"),
        ({"levels": [1001]}, "at most 1000"),
        ({"levels": [32, 32, 32, 2]}, "65536 codes, more than 32768"),
        ({"codebook_dropout": 1.0}, "below 1"),
        ({"stride": 0}, "at least 1"),
    ],
)
def test_contradictions_are_refused(changes: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        dataclasses.replace(CONFIG, **changes)  # type: ignore[arg-type]
