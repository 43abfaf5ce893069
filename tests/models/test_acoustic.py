"""The acoustic model: what padding, batching, speed and speakers may and may not change."""

from dataclasses import replace

import pytest
import torch

from sonorant.families.parallel.acoustic import SILENCE, AcousticConfig, AcousticModel

CONFIG = AcousticConfig(
    decoder="regression", channels=16, expansion=2, encoder_blocks=2, encoder_kernel=3, decoder_blocks=2,
    decoder_kernel=3, dropout=0.1, flow_steps=2,
)  # fmt: skip


@pytest.fixture(params=[("regression", False), ("regression", True), ("flow", True)], ids=str)
def model(request: pytest.FixtureRequest) -> AcousticModel:
    torch.manual_seed(0)
    decoder, pitch = request.param
    config = replace(CONFIG, decoder=decoder, pitch=pitch)
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
def test_speed_divides_the_length(model: AcousticModel) -> None:
    text, lengths, speaker = tokens(1, 40), torch.tensor([40]), torch.zeros(1, dtype=torch.int64)
    _, slow = model.synthesize(text, lengths, speaker, torch.tensor([0.5]))
    _, fast = model.synthesize(text, lengths, speaker, torch.tensor([1.0]))
    assert abs(int(slow) / int(fast) - 2.0) < 0.05


@torch.no_grad()
def test_speakers_sound_different(model: AcousticModel) -> None:
    text, lengths = tokens(1, 9), torch.tensor([9])
    first, _ = model.synthesize(text, lengths, torch.tensor([0]), torch.ones(1))
    second, _ = model.synthesize(text, lengths, torch.tensor([1]), torch.ones(1))
    assert first.shape != second.shape or not torch.allclose(first, second)


@torch.no_grad()
def test_expand_repeats_each_token_for_its_frames(model: AcousticModel) -> None:
    states = torch.randn(2, 3, 16)
    ends = torch.tensor([[2, 3, 6], [1, 4, 4]])  # the second has two real tokens
    _, owner, mask = model.expand(states, ends, torch.arange(7))
    assert owner[0, :6].tolist() == [0, 0, 1, 2, 2, 2]
    assert owner[1, :4].tolist() == [0, 1, 1, 1]
    assert mask[..., 0].tolist() == [[1, 1, 1, 1, 1, 1, 0], [1, 1, 1, 1, 0, 0, 0]]


def test_contradictions_are_refused() -> None:
    with pytest.raises(ValueError, match="odd"):
        replace(CONFIG, encoder_kernel=4)


@torch.no_grad()
def test_frames_are_told_as_they_are_stored(model: AcousticModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """A decoder that says exactly what it is to learn gives the stored mel, pitch and voicing back."""
    mel, pitch = torch.randn(1, 6, 8) - 5.0, torch.rand(1, 6, 2)
    wanted = model.normalized_frames(mel, pitch)
    monkeypatch.setattr(model.decoder, "forward", lambda *_: wanted)
    got = model.decode(torch.zeros(1, 3, 16), torch.tensor([[2, 4, 6]]), torch.arange(6))[0].T
    torch.testing.assert_close(got, torch.cat([mel, pitch], dim=2)[0, :, : 8 + 2 * model.config.pitch])
