from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from sonorant.extras.codec_lm.decoding.session import Prompt, Session
from sonorant.extras.codec_lm.decoding.state import State
from sonorant.extras.codec_lm.graphs import CodecLanguageModels
from sonorant.extras.codec_lm.language_model_training import delayed
from sonorant.extras.codec_lm.torch_dynamic import DynamicStepper, TorchStep
from sonorant.layers.alignment import ages, stay_at_end
from tests.support.tiny_voice import DECODING, write_trained_codec_lm

LENGTHS = (9, 5, 14)
CODES = 15


class Watched(DynamicStepper):
    """Keeps each state that was fed to the model."""

    def run(self, state: State, steps: int) -> State:
        for _ in range(steps):
            self.fed.append(state)
            state = super().run(state, 1)
        return state

    fed: list[State]


@pytest.mark.parametrize(("attention", "prompted"), [("full", False), ("sliding", True), ("block", True)])
def test_decoding_walks_the_path_of_training(tmp_path: Path, attention: str, prompted: bool) -> None:
    folders = write_trained_codec_lm(tmp_path, attention=attention, prompt_frames=6 if prompted else 0)
    models = CodecLanguageModels.load(*folders)
    model, random = models.predictor, np.random.default_rng(0)
    tokens = torch.from_numpy(random.integers(0, 2, (3, max(LENGTHS), 3)))
    tokens[..., 0] = torch.from_numpy(random.integers(1, 20, tokens.shape[:2]))
    lengths = torch.tensor(LENGTHS)
    prompt = Prompt(random.integers(0, CODES, (3, 6, 2)), np.array([6, 0, 3]) * prompted)
    with torch.no_grad():
        states = model.encode_speech(tokens, lengths, torch.zeros(3, dtype=torch.int64))
    stepper = Watched(TorchStep(model, torch.device("cpu")))
    stepper.fed = []
    config, keys = replace(DECODING, temperature=0.8), [(0, row, 0) for row in range(3)]
    session = Session(stepper, states.numpy(), np.array(LENGTHS), models.decoding(config), config, keys, prompt)
    codes = torch.from_numpy(session.more(10_000))
    frames = torch.from_numpy(session.lengths_B)
    assert session.ended and frames.min() > 0

    grid, real = delayed(codes, frames, CODES)
    fed = torch.nn.functional.pad(grid, (0, 0, 1, 0), value=CODES)[:, :-1]
    taken = [
        torch.from_numpy(np.stack([getattr(state, name) for state in stepper.fed], axis=1))
        for name in ("codes_BG", "pointer_B", "age_B")
    ]
    standing = stay_at_end(taken[1], frames)
    for row, count in enumerate((frames + 1).tolist()):  # two codebooks: one step more than frames
        assert session.pointers(row).tolist() == taken[1][row, : count - 1].tolist()
        for got, wanted in zip(taken, (fed, standing, ages(standing)), strict=True):
            assert (got[row, :count] == wanted[row, :count]).all()
    steps = grid.shape[1]
    with torch.no_grad():
        prompts = torch.from_numpy(prompt.codes_BPG), torch.from_numpy(prompt.lengths_B)
        logits, _ = model(states, lengths, *prompts, fed, standing[:, :steps], ages(standing)[:, :steps], frames + 1)
    likelihood = logits.log_softmax(-1).gather(-1, grid.clamp(max=CODES - 1)[..., None])[..., 0]
    expected = (likelihood * real).sum((1, 2)) / (2 * frames)
    np.testing.assert_allclose(session.log_probability_B, expected.numpy(), rtol=1e-4)
