import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from sonorant.audio.pitch import HIGHEST, LOWEST, REFERENCE, SourceRows
from sonorant.errors import SonorantError
from sonorant.extras.codec_lm.codec import Codec, CodecConfig
from sonorant.extras.codec_lm.saved import CODECS, load_codec
from sonorant.extras.codec_lm.source_codec import SourceCodec
from sonorant.families.parallel.saved import load_vocoder
from sonorant.layers.fsq import MOST_LEVELS, FiniteScalarQuantizer
from sonorant.layers.model_folder import build, describe, save_model
from sonorant.layers.quantized import quantizable, quantize_layers

CONFIG = CodecConfig(
    channels=16, expansion=2, kernel=5, encoder_blocks=2, decoder_blocks=2, stride=2, codebooks=3, levels=[4, 3, 2],
    codebook_dropout=0.5, pretrained=None,
)  # fmt: skip
MELS, HOP, RATE = 10, 16, 8000
KINDS = pytest.mark.parametrize("kind", ["vocos", "source_filter"])
ROUNDING = {
    "vocos": {"atol": 1e-6, "rtol": 1e-5},
    "source_filter": {"atol": 1e-5, "rtol": 1e-4},
    "frames": {"atol": 1e-5, "rtol": 1e-5},
}
"""Tolerances of samples by kind of codec, whose source's phases round more, and of frames."""


def codec_of(kind: str = "vocos", **changes: object) -> Codec:
    """A codec in evaluation mode, with random weights that use many codes and make distant blocks audible."""
    torch.manual_seed(0)
    config = dataclasses.replace(CONFIG, kind=kind, **changes)  # type: ignore[arg-type]
    codec = CODECS[kind](config, mels=MELS, n_fft=64, hop=HOP, rate=RATE, mel_mean=-5.0, mel_std=2.0).eval()
    with torch.no_grad():
        codec.encoder.out.weight *= 4.0
        for name, parameter in codec.named_parameters():
            if name.endswith(".scale"):
                parameter.fill_(1.0)
    return codec


def source_codec() -> SourceCodec:
    codec = codec_of("source_filter")
    assert isinstance(codec, SourceCodec)
    return codec


def known_of(rows: int, frames: int) -> Tensor:
    """Frames (B, D, T) as stored in features: log-mel, a gliding pitch, and alternating voicing."""
    random = torch.Generator().manual_seed(1)
    mel_BMT = torch.randn(rows, MELS, frames, generator=random) * 2.0 - 5.0
    start_B, slope_B = (torch.rand(2, rows, generator=random) - 0.5).unbind()
    time_T = torch.arange(float(frames))
    pitch_BT = start_B[:, None] + slope_B[:, None] * torch.sin(time_T / 7)
    voicing_BT = ((time_T + 20 * start_B[:, None]) % 16 < 10).float()
    return torch.cat([mel_BMT, torch.stack([pitch_BT, voicing_BT], dim=1)], dim=1)


def driven(known_BDT: Tensor) -> Tensor:
    """`known_BDT` with the source's rows."""
    return torch.from_numpy(SourceRows(RATE, HOP).append(known_BDT.numpy()))


@pytest.mark.parametrize("levels", [(8, 5, 5, 5), (2,), (3, 4), (7, 2, 6), (MOST_LEVELS,), (MOST_LEVELS - 1,)])
def test_every_code_is_a_vector_of_its_own_and_is_reached(levels: tuple[int, ...]) -> None:
    quantizer = FiniteScalarQuantizer(levels)
    codes_K = torch.arange(quantizer.codes)
    values_KD = quantizer.to_values(codes_K)
    assert quantizer.codes == len(values_KD.unique(dim=0)) == math.prod(levels)
    assert values_KD.abs().max() == 1.0
    assert torch.equal(quantizer.to_codes(values_KD), codes_K)
    ends = torch.tensor([-1e9, 1e9])[:, None].expand(-1, len(levels))
    assert quantizer.to_codes(quantizer(ends)).tolist() == [0, quantizer.codes - 1]
    random = quantizer(torch.randn(200_000, len(levels), generator=torch.Generator().manual_seed(0)) * 3.0)
    torch.testing.assert_close(quantizer.to_values(quantizer.to_codes(random)), random)
    assert max(levels) > 8 or [len(column.unique()) for column in random.T] == list(levels)


def test_gradients_pass_the_rounding_unchanged() -> None:
    quantizer = FiniteScalarQuantizer((8, 5, 3))
    x = torch.randn(50, 3, generator=torch.Generator().manual_seed(0), requires_grad=True)
    weight = torch.randn(50, 3, generator=torch.Generator().manual_seed(1))
    (quantizer(x) * weight).sum().backward()
    smooth = ((x + quantizer.shift_D).tanh() * quantizer.reach_D - quantizer.offset_D) / -quantizer.lowest_D
    torch.testing.assert_close(x.grad, torch.autograd.grad((smooth * weight).sum(), x)[0])
    assert x.grad is not None and (x.grad != 0).all()


@KINDS
@pytest.mark.parametrize("stride", [1, 2, 3])
@torch.no_grad()
def test_a_row_equals_itself_alone(kind: str, stride: int) -> None:
    codec, known, lengths = codec_of(kind, stride=stride), known_of(4, 23), [23, 17, 8, 1]
    codes_BFG = codec.encode(known, torch.tensor(lengths))
    counts = [-(-length // stride) for length in lengths]
    assert codes_BFG.shape == (4, counts[0], 3) and len(codes_BFG[0].unique(dim=0)) > 5
    for row, count in enumerate(counts):  # noise makes padding audible
        codes_BFG[row, count:] = torch.randint(codec.codes, codes_BFG[row, count:].shape)
    samples_BS = codec.decode(codes_BFG, torch.tensor(counts))
    assert samples_BS.shape == (4, counts[0] * codec.samples_per_frame)
    for row, (length, count) in enumerate(zip(lengths, counts, strict=True)):
        alone_1FG = codec.encode(known[row : row + 1, :, :length])
        assert torch.equal(codes_BFG[row, :count], alone_1FG[0])
        heard_S = samples_BS[row, : count * codec.samples_per_frame]
        torch.testing.assert_close(heard_S, codec.decode(alone_1FG)[0], **ROUNDING[kind])
        if isinstance(codec, SourceCodec):
            frames_DT = codec.frames(codes_BFG, torch.tensor(counts))[row]
            torch.testing.assert_close(frames_DT[:, : count * stride], codec.frames(alone_1FG)[0], atol=1e-5, rtol=1e-5)
            assert (frames_DT[:MELS, count * stride :] == 0).all()


@KINDS
@pytest.mark.parametrize("stride", [1, 2, 3])
@torch.no_grad()
def test_parts_with_context_equal_the_whole_and_less_does_not(kind: str, stride: int) -> None:
    codec, first, last = codec_of(kind, stride=stride), 25, 33
    codes_BFG = torch.randint(codec.codes, (1, 60, 3), generator=torch.Generator().manual_seed(0))
    # Graph, its input, the input's axis of time, receptive field, output a frame, a field that is too small
    graphs = [(codec.decode, codes_BFG, 1, codec.receptive_field, codec.samples_per_frame, codec.receptive_field - 2)]
    if isinstance(codec, SourceCodec):
        reach, given = codec.frames_receptive_field, codec.with_source(codec.frames(codes_BFG))
        graphs = [
            (codec.frames, codes_BFG, 1, reach, stride, reach - 1),
            (codec.vocode, given, 2, codec.receptive_field, HOP, codec.receptive_field - 4),
        ]
    for compute, whole, axis, reach, size, less in graphs:
        wanted = compute(whole)[..., first * size : last * size]
        got, wrong = (
            compute(whole.narrow(axis, first - around, last - first + 2 * around))[..., around * size :][
                ..., : (last - first) * size
            ]
            for around in (reach, less)
        )
        rounding = ROUNDING["frames" if compute.__name__ == "frames" else kind]
        torch.testing.assert_close(got, wanted, **rounding)
        assert (wrong - wanted).abs().max() > 2e-5


def test_forward_decodes_the_encoded_and_keeps_all_codebooks_in_evaluation() -> None:
    codec, known = codec_of(), known_of(8, 21)
    with torch.no_grad():
        wanted = codec.decode(codec.encode(known))[:, : 21 * HOP]
        torch.testing.assert_close(codec(known), wanted, atol=1e-6, rtol=1e-5)


def test_later_codebooks_are_dropped_in_the_fraction_of_rows_that_is_set() -> None:
    torch.manual_seed(0)
    kept_BG = codec_of()._kept(torch.ones(4000, 1, 3, 1))[:, 0, :, 0]
    assert (kept_BG[:, 0] == 1).all() and (kept_BG[:, 1] >= kept_BG[:, 2]).all()
    assert (kept_BG == 0).float().mean(0).tolist() == pytest.approx([0, 0.25, 0.5], abs=0.04)


@KINDS
def test_silence_has_the_same_codes_at_any_pitch(kind: str) -> None:
    codec, known = codec_of(kind), torch.zeros(1, MELS + 2, 200)
    known[:, :MELS], known[:, MELS] = -11.5129, torch.linspace(-1, 1, 200)
    assert codec.silence.dtype == torch.int64
    assert (codec.encode(known)[0][30:70] == codec.silence).all()


@KINDS
@torch.no_grad()
def test_int8_leaves_codes_and_pitch_in_float(kind: str) -> None:
    codec, frames = codec_of(kind), driven(known_of(2, 20))
    names = quantizable(codec)
    assert names and all(name.startswith("decoder.") for name in names) and "decoder.out" not in names
    before, heard = codec.encode(frames), codec(frames)
    quantize_layers(codec, names)
    assert torch.equal(codec.eval().encode(frames), before)
    assert (codec(frames) - heard).abs().max() > 0


@KINDS
def test_a_saved_codec_is_the_same(kind: str, tmp_path: Path) -> None:
    audio = {"sample_rate": RATE, "n_fft": 64, "hop": HOP, "n_mels": MELS, "f_min": 0.0, "f_max": 4000.0}
    header = {"audio": audio, "symbols": ["a"], "speakers": ["s"], "frontend": {}, "mel_mean": -5.0, "mel_std": 2.0}
    description = describe("codec", dataclasses.replace(CONFIG, kind=kind), header)
    torch.manual_seed(0)
    save_model(tmp_path / "codec", build(description).state_dict(), description)
    (codec, _), (again, _) = load_codec(tmp_path / "codec"), load_codec(tmp_path / "codec")
    codes = codec.encode_utterance(known_of(1, 9)[0].numpy(), np.zeros(9 * HOP, np.float32))
    assert codes.shape == (5, 3)
    assert torch.equal(codec.decode(torch.from_numpy(codes)[None]), again.decode(torch.from_numpy(codes)[None]))
    with pytest.raises(SonorantError, match="holds a model of kind 'codec', not 'vocoder'"):
        load_vocoder(tmp_path / "codec")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"kernel": 4}, "odd"),
        ({"levels": [32, 32, 32, 2]}, "give 65536 codes; their product must be at most 32768"),
    ],
)
def test_contradictions_are_refused(changes: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        dataclasses.replace(CONFIG, **changes)  # type: ignore[arg-type]


@torch.no_grad()
def test_pitch_is_encoded_in_voiced_frames_alone() -> None:
    codec, known = source_codec(), known_of(2, 64)
    codes, voiced_BT = codec.encode(known), known[:, MELS + 1] > 0
    for changed_where, same in ((~voiced_BT, True), (voiced_BT, False)):
        changed = known.clone()
        changed[:, MELS] += 0.7 * changed_where
        assert torch.equal(codec.encode(changed), codes) == same


@torch.no_grad()
def test_training_follows_the_recordings_pitch_and_speech_the_decoded_one() -> None:
    codec, known = source_codec(), known_of(1, 60)
    higher = known.clone()
    higher[:, MELS] += (known[:, MELS + 1] == 0) * 0.5  # changes no code
    assert (codec(driven(higher)) - codec(driven(known))).abs().max() > 1e-4
    frames = codec.frames(codec.encode(known))
    torch.testing.assert_close(codec.decode(codec.encode(known)), codec.vocode(driven(frames)))
    octaves = frames[:, MELS]
    assert octaves.min() >= np.log2(LOWEST / REFERENCE) - 1e-6 and octaves.max() <= np.log2(HIGHEST / REFERENCE) + 1e-6
