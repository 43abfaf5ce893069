"""A codec whose decoder has a source: pitch goes through the codes, and drives the sound."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from sonorant.audio.pitch import HIGHEST, LOWEST, REFERENCE, SourceRows
from sonorant.extras.codec_lm.saved import load_codec
from sonorant.extras.codec_lm.source_codec import SourceCodec, pitch_distance
from sonorant.layers.model_folder import build, describe, save_model
from sonorant.layers.quantized import quantizable, quantize_layers
from tests.extras.codec_lm.test_codec import CONFIG, HOP, MELS, mel_of

RATE = 8000
AUDIO = {"sample_rate": RATE, "n_fft": 64, "hop": HOP, "n_mels": MELS, "f_min": 0.0, "f_max": 4000.0}


def codec_of(seed: int = 0, **changes: object) -> SourceCodec:
    """In evaluation mode, with random weights: loud enough to use many codes, its blocks to be heard from afar."""
    torch.manual_seed(seed)
    config = dataclasses.replace(CONFIG, kind="source_filter", frame_blocks=2, **changes)  # type: ignore[arg-type]
    codec = SourceCodec(config, mels=MELS, n_fft=64, hop=HOP, rate=RATE, mel_mean=-5.0, mel_std=2.0).eval()
    with torch.no_grad():
        codec.encoder.out.weight *= 4.0
        for name, parameter in codec.named_parameters():
            if name.endswith(".scale"):
                parameter.fill_(1.0)
    return codec


def known_of(rows: int, frames: int, seed: int = 1) -> Tensor:
    """Frames (B, D, T) as features hold them: log-mel, a pitch that glides, and voicing in turns."""
    random = torch.Generator().manual_seed(seed)
    start_B, slope_B = (torch.rand(2, rows, generator=random) - 0.5).unbind()
    time_T = torch.arange(float(frames))
    pitch_BT = start_B[:, None] + slope_B[:, None] * torch.sin(time_T / 7)
    voicing_BT = ((time_T + 20 * start_B[:, None]) % 16 < 10).float()
    return torch.cat([mel_of(rows, frames), torch.stack([pitch_BT, voicing_BT], dim=1)], dim=1)


def driven(known_BDT: Tensor) -> Tensor:
    """The same with the source's rows."""
    return torch.from_numpy(SourceRows(RATE, HOP).append(known_BDT.numpy()))


def codes_of(codec: SourceCodec, rows: int, frames: int) -> Tensor:
    return torch.randint(codec.codes, (rows, frames, 3), generator=torch.Generator().manual_seed(0))


@torch.no_grad()
def test_pitch_is_heard_where_there_is_voice_and_nowhere_else() -> None:
    codec, known = codec_of(), known_of(2, 64)
    codes, voiced_BT = codec.encode(known), known[:, MELS + 1] > 0
    for changed_where, same in ((~voiced_BT, True), (voiced_BT, False)):
        changed = known.clone()
        changed[:, MELS] += 0.7 * changed_where
        assert torch.equal(codec.encode(changed), codes) == same


@pytest.mark.parametrize("stride", [1, 2, 3])
@torch.no_grad()
def test_a_row_is_as_it_would_be_alone(stride: int) -> None:
    codec, known, lengths = codec_of(stride=stride), known_of(4, 23), [23, 17, 8, 1]
    codes_BFG = codec.encode(known, torch.tensor(lengths))
    counts = [-(-length // stride) for length in lengths]
    for row, count in enumerate(counts):  # noise, so that padding that is heard would tell
        codes_BFG[row, count:] = torch.randint(codec.codes, codes_BFG[row, count:].shape)
    frames_BDT, samples_BS = (make(codes_BFG, torch.tensor(counts)) for make in (codec.frames, codec.decode))
    for row, (length, count) in enumerate(zip(lengths, counts, strict=True)):
        alone_1FG = codec.encode(known[row : row + 1, :, :length])
        assert torch.equal(codes_BFG[row, :count], alone_1FG[0])
        said_DT, heard_S = frames_BDT[row, :, : count * stride], samples_BS[row, : count * codec.samples_per_frame]
        torch.testing.assert_close(said_DT, codec.frames(alone_1FG)[0], atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(heard_S, codec.decode(alone_1FG)[0], atol=1e-5, rtol=1e-4)
        assert (frames_BDT[row, :MELS, count * stride :] == 0).all()


@pytest.mark.parametrize("stride", [1, 2, 3])
@torch.no_grad()
def test_parts_with_context_equal_the_whole_and_less_does_not(stride: int) -> None:
    codec, first, last = codec_of(stride=stride), 25, 33
    codes_BFG = codes_of(codec, 1, 60)
    frames_BDT = codec.frames(codes_BFG)
    wanted = frames_BDT[..., first * stride : last * stride]

    def decoded(context: int) -> Tensor:
        part = codec.frames(codes_BFG[:, first - context : last + context])
        return part[..., context * stride :][..., : (last - first) * stride]

    torch.testing.assert_close(decoded(codec.frames_receptive_field), wanted, atol=1e-5, rtol=1e-5)
    assert (decoded(codec.frames_receptive_field - 1) - wanted).abs().max() > 1e-3

    given = codec.with_source(frames_BDT)
    whole = codec.vocode(given)[0, first * HOP : last * HOP]

    def heard(context: int) -> Tensor:
        samples = codec.vocode(given[..., first - context : last + context])[0]
        return samples[context * HOP :][: (last - first) * HOP]

    torch.testing.assert_close(heard(codec.receptive_field), whole, atol=1e-5, rtol=1e-4)
    assert (heard(codec.receptive_field - 4) - whole).abs().max() > 1e-4


@torch.no_grad()
def test_training_follows_the_recordings_pitch_and_speech_the_decoded_one() -> None:
    codec, known = codec_of(), known_of(1, 60)
    higher = known.clone()
    higher[:, MELS] += (known[:, MELS + 1] == 0) * 0.5  # which changes no code
    assert torch.equal(codec.encode(higher), codec.encode(known))
    assert (codec(driven(higher)) - codec(driven(known))).abs().max() > 1e-4
    said = codec.frames(codec.encode(known))
    torch.testing.assert_close(codec.decode(codec.encode(known)), codec.vocode(driven(said)))
    octaves = said[:, MELS]
    assert octaves.min() >= np.log2(LOWEST / REFERENCE) - 1e-6 and octaves.max() <= np.log2(HIGHEST / REFERENCE) + 1e-6


def test_all_parameters_learn() -> None:
    codec, frames = codec_of().train(), driven(known_of(6, 20))
    samples_BS, said_BDT = codec.copy(frames)
    assert samples_BS.shape == (6, 20 * HOP) and said_BDT.shape == (6, MELS + 2, 20)
    (samples_BS.square().sum() + pitch_distance(said_BDT, frames, MELS)).backward()
    assert all(parameter.grad is not None and parameter.grad.abs().max() > 0 for parameter in codec.parameters())


def test_the_decoded_pitch_follows_the_recordings_after_a_short_training() -> None:
    codec = codec_of(codebook_dropout=0.0).train()
    optimizer = torch.optim.AdamW(codec.parameters(), lr=5e-3)
    for step in range(120):
        frames = driven(known_of(8, 32, seed=100 + step))
        optimizer.zero_grad()
        pitch_distance(codec.copy(frames)[1], frames, MELS).backward()
        optimizer.step()
    with torch.no_grad():
        known = known_of(4, 64, seed=7)
        said = codec.eval().frames(codec.encode(known))
    voiced = known[:, MELS + 1] > 0
    pitch, wanted = said[:, MELS][voiced].numpy(), known[:, MELS][voiced].numpy()
    assert np.corrcoef(pitch, wanted)[0, 1] > 0.9
    assert ((said[:, MELS + 1] > 0.5) == voiced).float().mean() > 0.9


def test_silence_has_the_same_codes_whatever_the_line_of_pitch_says() -> None:
    codec, known = codec_of(), torch.zeros(1, MELS + 2, 200)
    known[:, :MELS], known[:, MELS] = -11.5129, torch.linspace(-1, 1, 200)
    codes_FG = codec.encode(known)[0]
    assert codec.silence.dtype == torch.int64
    assert (codes_FG[30:70] == codec.silence).all()


@torch.no_grad()
def test_int8_leaves_the_codes_and_the_pitch_in_float() -> None:
    codec, known = codec_of(), known_of(2, 20)
    names = quantizable(codec)
    assert any(name.startswith("decoder.stack") for name in names) and "decoder.out" not in names
    assert all(name.startswith("decoder.") for name in names)
    before, heard = codec.encode(known), codec(driven(known))
    quantize_layers(codec, names)
    assert torch.equal(codec.eval().encode(known), before)
    assert (codec(driven(known)) - heard).abs().max() > 0


def test_saved_and_loaded_it_is_the_same(tmp_path: Path) -> None:
    header = {"audio": AUDIO, "symbols": ["a"], "speakers": ["s"], "frontend": {}, "mel_mean": -5.0, "mel_std": 2.0}
    description = describe("codec", dataclasses.replace(CONFIG, kind="source_filter"), header)
    torch.manual_seed(0)
    save_model(tmp_path / "codec", build(description).state_dict(), description)
    (codec, _), (again, _) = load_codec(tmp_path / "codec"), load_codec(tmp_path / "codec")
    assert isinstance(codec, SourceCodec)
    codes = codec.encode_utterance(known_of(1, 9)[0].numpy(), np.zeros(9 * HOP, np.float32))
    assert codes.shape == (5, 3)
    assert torch.equal(codec.decode(torch.from_numpy(codes)[None]), again.decode(torch.from_numpy(codes)[None]))
