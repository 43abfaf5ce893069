import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from sonorant.audio.pitch import PITCH_STD
from sonorant.families.parallel.acoustic import SILENCE, AcousticConfig, AcousticModel
from sonorant.families.parallel.prosody import nepers

CONFIG = AcousticConfig(
    decoder="regression", channels=16, expansion=2, encoder_blocks=2, encoder_kernel=3, decoder_blocks=2,
    decoder_kernel=3, dropout=0.1, flow_steps=2,
    prior_kernel=0, prosody_temperature=1.0,
)  # fmt: skip


KINDS: dict[str, dict[str, Any]] = {
    "regression": {},
    "flow": {"decoder": "flow"},
    "prosody flow": {"prosody_kind": "flow"},
}


@pytest.fixture(params=KINDS)
def model(request: pytest.FixtureRequest) -> AcousticModel:
    torch.manual_seed(0)
    config = replace(CONFIG, **KINDS[request.param])
    return AcousticModel(config, symbols=12, speakers=3, mels=8, mel_mean=-5.0, mel_std=2.0).eval()


def tokens(batch: int, length: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.stack([torch.randint(0, high, (batch, length), generator=generator) for high in (12, 3, 2)], dim=2)


@torch.no_grad()
def test_an_utterance_in_a_batch_equals_itself_alone(model: AcousticModel) -> None:
    text, lengths = tokens(3, 9), torch.tensor([9, 4, 6])
    mel, mel_lengths = model.synthesize(text, lengths, torch.tensor([0, 1, 2]), torch.ones(3))
    for item in range(3):
        own = text[item : item + 1, : lengths[item]]
        alone, length = model.synthesize(own, lengths[item : item + 1], torch.tensor([item]), torch.ones(1))
        assert length[0] == mel_lengths[item]
        torch.testing.assert_close(mel[item : item + 1, :, : length[0]], alone, atol=1e-5, rtol=1e-5)
        assert (mel[item, : model.mels, length[0] :] == SILENCE).all()
        assert not mel[item, model.mels :, length[0] :].any()


@torch.no_grad()
def test_expand_repeats_each_token_for_its_frames(model: AcousticModel) -> None:
    states = torch.randn(2, 3, 18)
    ends = torch.tensor([[2, 3, 6], [1, 4, 4]])  # the second has two real tokens
    model.position = torch.nn.Linear(5, 16).requires_grad_(False)
    for parameter in model.position.parameters():
        parameter.zero_()
    expanded = model.expand(states, ends, torch.arange(7))
    mask = expanded.mask_BT1
    for row, owners in enumerate(([0, 0, 1, 2, 2, 2], [0, 1, 1, 1])):
        own = states[row, owners]
        assert torch.equal(expanded.prosody_BT2[row, : len(owners)], own[:, 16:])
        said = own[:, :16] + model.melody(own[:, 16:])
        torch.testing.assert_close(expanded.hidden_BTC[row, : len(owners)], said)
    assert mask[..., 0].tolist() == [[1, 1, 1, 1, 1, 1, 0], [1, 1, 1, 1, 0, 0, 0]]


@torch.no_grad()
def test_a_part_with_its_receptive_field_is_that_of_the_whole_and_with_less_it_is_not(model: AcousticModel) -> None:
    for name, parameter in model.decoder.named_parameters():
        if name.endswith("depthwise.weight"):
            parameter[..., 0] = parameter[..., -1] = 10.0
        if name.endswith(".scale"):
            parameter.fill_(10.0)
    states, ends = torch.randn(1, 9, 18), 8 * torch.arange(1, 10)[None]
    whole, reach = model.decode(states, ends, torch.arange(72)), model.receptive_field

    def part(reach: int) -> float:
        frames = model.decode(states, ends, torch.arange(36 - reach, 37 + reach))
        return float((frames[..., reach] - whole[..., 36]).abs().max() / whole.abs().max())

    assert part(reach) < 1e-5 < part(reach - 1)


def test_contradictions_are_refused() -> None:
    for name in ("encoder_kernel", "prior_kernel"):
        with pytest.raises(ValueError, match=f"{name}.* odd"):
            replace(CONFIG, **{name: 4})


@torch.no_grad()
@pytest.mark.parametrize("kernel", [0, 1, 3])
def test_a_token_finds_its_place_by_itself_and_its_neighbours_alone(kernel: int) -> None:
    """A prior of more tokens could represent a neighbour's sound."""
    model = AcousticModel(replace(CONFIG, prior_kernel=kernel), symbols=12, speakers=1, mels=8).eval()
    text, lengths, speaker = tokens(1, 15), torch.tensor([15]), torch.tensor([0])
    before = model.encode(text, lengths, speaker)
    text[0, 7, 0] = (text[0, 7, 0] + 1) % 12
    after = model.encode(text, lengths, speaker)
    moved = [bool((a != b).any()) for a, b in zip(before.prior_BNM[0], after.prior_BNM[0], strict=True)]
    reach = kernel // 2 if kernel else 2
    assert moved == [abs(place - 7) <= reach for place in range(15)]
    assert (before.states_BNC[0, 5] != after.states_BNC[0, 5]).any(), "what the decoder is told knows more"


@pytest.mark.parametrize("kind", ["regression", "flow"])
def test_what_predicts_prosody_leaves_the_encoder_as_it_is(kind: str) -> None:
    model = AcousticModel(replace(CONFIG, prosody_kind=kind), symbols=12, speakers=1, mels=8)
    encoded = model.encode(tokens(1, 9), torch.tensor([9]), torch.tensor([0]))
    model.prosody.errors(*encoded.heard, torch.full((1, 9), 4), torch.zeros(1, 9, 2)).sum().backward()
    trained = {name.split(".")[0] for name, each in model.named_parameters() if each.grad is not None}
    assert trained == {"prosody"}


def test_a_flow_speaks_as_unevenly_as_the_recordings_and_a_regression_evenly() -> None:
    """Both learn tokens of 4 frames (geometric mean, log spread 0.5) and a pitch of 0.5 (spread 0.3)."""
    told = {}
    for kind, far in (("regression", 0.06), ("flow", 0.08)):
        torch.manual_seed(0)
        config = replace(CONFIG, prosody_kind=kind, prosody_dropout=0.0, flow_steps=8)
        model = AcousticModel(config, symbols=12, speakers=1, mels=8)
        heard = model.encode(tokens(8, 40), torch.full((8,), 40), torch.zeros(8, dtype=torch.int64)).heard
        optimizer = torch.optim.Adam(model.prosody.parameters(), 3e-3)
        for _ in range(400):
            frames = (torch.randn(8, 40) * 0.5).exp() * 4
            prosody = torch.stack([0.5 + 0.3 * torch.randn(8, 40), torch.zeros(8, 40)], dim=2)
            model.prosody.errors(*heard, frames, prosody).mean().backward()
            optimizer.step()
            optimizer.zero_grad()
        heard = model.eval().encode(tokens(8, 40), torch.full((8,), 40), torch.zeros(8, dtype=torch.int64)).heard
        told[kind] = model.prosody(*heard).detach()
        assert float(told[kind][..., 1].mean()) == pytest.approx(0.5, abs=0.1)
        # The mean of lengths, not of their logarithms: speech is neither hurried nor dragged.
        assert told[kind][..., 0].exp().mean() == pytest.approx(4 * math.exp(0.5**2 / 2), rel=far)
    assert told["regression"].std(dim=(0, 1))[:2].max() < 0.1
    length, pitch = told["flow"].std(dim=(0, 1))[:2].tolist()
    assert (length, pitch) == (pytest.approx(0.5, abs=0.15), pytest.approx(0.3, abs=0.1))
    model.prosody.flow.temperature = 0.0
    assert model.prosody(*heard).std(dim=(0, 1))[:2].max() < 0.15, "without temperature one way"


@torch.no_grad()
def test_frames_are_told_as_they_are_stored(model: AcousticModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """A decoder that predicts its target exactly returns the stored mel, pitch and voicing."""
    mel, pitch, ends = torch.randn(1, 6, 8) - 5.0, torch.rand(1, 6, 2), torch.tensor([[2, 4, 6]])
    states = torch.cat([torch.zeros(1, 3, 16), model.prosody_of(mel, pitch, torch.tensor([[2, 2, 2]]))[0]], dim=2)
    wanted = model.normalized_frames(mel, pitch, model.expand(states, ends, torch.arange(6)).prosody_BT2)
    monkeypatch.setattr(model.decoder, "forward", lambda *_: wanted)
    got = model.decode(states, ends, torch.arange(6))[0].T
    torch.testing.assert_close(got, torch.cat([mel, pitch], dim=2)[0])


@torch.no_grad()
def test_prosody_of_a_recording_is_that_of_its_tokens() -> None:
    """A token's pitch is that of its voiced frames; its energy rises with its level, decibel by decibel."""
    model = AcousticModel(CONFIG, symbols=12, speakers=1, mels=8, mel_mean=-5.0, mel_std=2.0)
    mel = torch.randn(1, 6, 8) - 5.0
    pitch = torch.tensor([[[0.5, 1.0], [0.5, 1.0], [-0.25, 1.0], [0.0, 0.0], [0.125, 0.0], [0.125, 0.0]]])
    durations = torch.tensor([[2, 2, 2, 0]])
    found, heard = model.prosody_of(mel, pitch, durations)
    octaves = found[0, :3, 0] * PITCH_STD
    torch.testing.assert_close(octaves, torch.tensor([0.5, -0.25 / 1.1, 0.125]))  # the unvoiced frame counts a tenth
    torch.testing.assert_close(heard, torch.tensor([[1.0, 0.55, 0.1, 0.0]]))
    louder, _ = model.prosody_of(mel + nepers(torch.tensor(6.0)), pitch, durations)
    torch.testing.assert_close((louder - found)[0, :3, 1], torch.full((3,), float(nepers(torch.tensor(6.0))) / 2.0))


@torch.no_grad()
@pytest.mark.parametrize("decoder", ["regression", "flow"])
def test_pitch_is_moved_by_so_many_semitones(decoder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exactly, per row, where the decoder adds nothing; length and states stay."""
    torch.manual_seed(0)
    config = replace(CONFIG, decoder=decoder)
    model = AcousticModel(config, symbols=12, speakers=1, mels=8, mel_mean=-5.0, mel_std=2.0).eval()
    monkeypatch.setattr(model.decoder, "forward", lambda hidden, *_: hidden.new_zeros(*hidden.shape[:2], 10))
    text = tokens(1, 9).expand(3, -1, -1), torch.full((3,), 9), torch.zeros(3, dtype=torch.int64), torch.ones(3)
    frames, lengths = model.synthesize(*text, torch.tensor([0.0, 3.0, -12.0]), torch.tensor([0.0, 6.0, 0.0]))
    assert len(set(lengths.tolist())) == 1
    torch.testing.assert_close(frames[1, 8] - frames[0, 8], torch.full_like(frames[0, 8], 0.25))
    torch.testing.assert_close(frames[2, 8] - frames[0, 8], torch.full_like(frames[0, 8], -1.0))
    states, _ = model.encode_speech(*text, torch.zeros(3), torch.tensor([0.0, 6.0, 0.0]))
    torch.testing.assert_close((states[1] - states[0])[:, 17], torch.full((9,), 6.0 * 0.115129 / 2.0))
    assert torch.equal(states[1, :, :16], states[0, :, :16])
