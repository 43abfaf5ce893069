import json
from pathlib import Path
from typing import cast

import numpy as np
import pytest
import torch
from torch import nn

from sonorant.errors import SonorantError
from sonorant.families.parallel.acoustic import AcousticModel
from sonorant.families.parallel.acoustic_training import predicted_mels, say_in_time
from sonorant.features.feature_store import FeatureStore
from sonorant.files import read_json
from sonorant.layers.model_folder import save_model
from testbed.tiny_training import tiny_features, tiny_recipe


@pytest.fixture(scope="module")
def features(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_features(tmp_path_factory.mktemp("features"))


@pytest.fixture(scope="module")
def acoustic(features: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Trained folder with random weights."""
    folder, recipe = tmp_path_factory.mktemp("models") / "acoustic", tiny_recipe("acoustic", features)
    save_model(folder, recipe.model.state_dict(), recipe.description() | {"provenance": {}})
    return folder


class Planted(nn.Module):
    """A prior that gives each token its own normalised mel (B, N, M)."""

    def __init__(self, prior_BNM: torch.Tensor) -> None:
        super().__init__()
        self.prior_BNM = prior_BNM

    def forward(self, states_BNC: torch.Tensor) -> torch.Tensor:
        return self.prior_BNM


@torch.no_grad()
def spoken(model: AcousticModel, tokens: int = 9) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """A batch of one whose tokens have distinct sounds, as the prior predicts, and its durations (1, N)."""
    torch.manual_seed(3)
    durations_N = torch.randint(1, 12, (tokens,))
    sounds_NM = torch.randn(tokens, model.mels) * 2.0 - 5.0
    frames = int(durations_N.sum())
    mel_1TM = sounds_NM.repeat_interleave(durations_N, dim=0)[None]
    model.prior = Planted(model.normalize(sounds_NM)[None])
    batch = {
        "tokens": torch.randint(0, 2, (1, tokens, 3)),
        "token_lengths": torch.tensor([tokens]),
        "mel": mel_1TM,
        "pitch": torch.stack([torch.rand(1, frames) - 0.5, torch.rand(1, frames)], dim=2),
        "mel_lengths": torch.tensor([frames]),
        "speaker": torch.tensor([0]),
    }
    return batch, durations_N[None]


@pytest.mark.parametrize("decoder", ["regression", "flow"])
@torch.no_grad()
def test_each_token_is_said_while_the_recording_says_it(decoder: str, features: Path) -> None:
    model = cast(AcousticModel, tiny_recipe("acoustic", features, decoder=decoder).model).eval()
    batch, durations_1N = spoken(model)
    said_1TM = say_in_time(model, batch)
    assert said_1TM.shape == batch["mel"].shape
    encoded = model.encode(batch["tokens"], batch["token_lengths"], batch["speaker"])
    told_1N2, _ = model.prosody_of(batch["mel"], batch["pitch"], durations_1N)
    states, time_T = model.states(encoded, batch["speaker"], told_1N2), torch.arange(said_1TM.shape[1])
    wanted_1TM = model.decode(states, durations_1N.cumsum(1), time_T)[:, : model.mels].transpose(1, 2)
    torch.testing.assert_close(said_1TM, wanted_1TM)
    even_1N = torch.full_like(durations_1N, said_1TM.shape[1] // durations_1N.shape[1])
    uneven_1TM = model.decode(states, even_1N.cumsum(1), time_T)[:, : model.mels].transpose(1, 2)
    assert (said_1TM - uneven_1TM).abs().mean() > 0.01, "when a token is said makes no difference here"


def test_every_recording_is_said_in_its_length(features: Path, acoustic: Path) -> None:
    store = FeatureStore.open(features)
    said = list(predicted_mels(acoustic, store))
    assert [mel.shape for mel in said] == [store.mel(i).shape for i in range(len(store))]
    assert all(np.isfinite(mel).all() for mel in said)


def test_a_model_of_other_symbols_is_refused(features: Path, acoustic: Path, tmp_path: Path) -> None:
    for file in features.iterdir():
        (tmp_path / file.name).symlink_to(file)
    header = read_json(features / "header.json")
    (tmp_path / "header.json").unlink()
    (tmp_path / "header.json").write_text(json.dumps(header | {"symbols": header["symbols"][::-1]}))
    with pytest.raises(SonorantError, match=r"acoustic: its symbols differ from those of .*; train"):
        next(predicted_mels(acoustic, FeatureStore.open(tmp_path)))
