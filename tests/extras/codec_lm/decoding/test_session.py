from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sonorant.errors import SonorantError
from sonorant.extras.codec_lm.decoding.session import Prompt, Session
from sonorant.extras.codec_lm.decoding.state import State
from tests.extras.codec_lm.decoding.tiny_model import CODES, CONFIG, DESCRIPTION, SILENCE, STREAMS, TinyStepper, texts

DRAWN = {"temperature": 0.9, "top_k": 8, "top_p": 0.95, "repetition_penalty": 1.2, "advance": "sample"}
LENGTHS = (9, 3, 17, 12)
GREEDY_AND_DRAWN = pytest.mark.parametrize("change", [{}, DRAWN], ids=["greedy", "drawn"])


def session(lengths: tuple[int, ...], change: dict, library: str = "numpy", plant: Any = None, **more: Any) -> Session:
    keys, config = [(5, 0, 0)] * len(lengths), replace(CONFIG, **change)
    return Session(TinyStepper(library, plant), *texts(*lengths), DESCRIPTION, config, keys, **more)


def whole(made: Session) -> np.ndarray:
    codes = made.more(1000)
    assert made.ended
    return codes


@GREEDY_AND_DRAWN
@pytest.mark.parametrize("piece", [1, 5])
def test_pieces_of_any_size_make_the_whole(change: dict, piece: int) -> None:
    at_once, in_pieces = session(LENGTHS, change), session(LENGTHS, change)
    expected = whole(at_once)
    sizes = []
    while not in_pieces.ended:
        sizes.append(in_pieces.more(piece))
    assert all(part.shape[1] == piece for part in sizes[:-1]) and sizes[-1].shape[1] <= piece
    assert (np.concatenate(sizes, axis=1) == expected).all()
    assert in_pieces.more(piece).shape == (len(LENGTHS), 0, STREAMS)
    assert (in_pieces.lengths_B == at_once.lengths_B).all()


@GREEDY_AND_DRAWN
def test_numpy_and_torch_have_the_same_states(change: dict) -> None:
    in_numpy, in_torch = (session(LENGTHS, change, library) for library in ("numpy", "torch"))
    steps = 0
    while not in_numpy.ended:
        assert (in_numpy.more(1) == in_torch.more(1)).all()
        for name, one, other in zip(State._fields, in_numpy._state, in_torch._state, strict=True):
            assert one.dtype == other.dtype and one.shape == other.shape, name
            np.testing.assert_allclose(one, other, atol=1e-4, err_msg=name)
        steps += 1
    assert steps > 10 and in_torch.ended


@pytest.mark.parametrize("place", ["codes", "pointer"])
def test_nan_is_an_error(place: str) -> None:
    def plant(logits: np.ndarray, hop: np.ndarray, step: int) -> None:
        (logits[1] if place == "codes" else hop[1])[..., 0] = np.nan

    with pytest.raises(SonorantError, match="contain NaN or infinity"):
        session((9, 12), {}, plant=plant).more(5)


@pytest.mark.parametrize("above", [1, -4], ids=["likely logits above zero", "all logits below zero"])
def test_recent_codes_are_penalised_in_their_codebook(above: float) -> None:
    penalty, window = 1.5, 3
    likely_K = np.random.default_rng(8).standard_normal(CODES).astype(np.float32) + above
    lowered_K = np.where(likely_K > 0, likely_K / penalty, likely_K * penalty)

    def plant(logits: np.ndarray, hop: np.ndarray, step: int) -> None:
        logits[:] = likely_K

    codes = whole(session((9,), {"repetition_penalty": penalty, "repetition_window": window}, plant=plant))[0]
    said: list[int] = []
    for _ in codes:
        recent = np.isin(np.arange(CODES), said[-window:])
        said.append(int(np.where(recent, lowered_K, likely_K).argmax()))
    assert len(set(said)) > 2
    assert codes.tolist() == [[code] * STREAMS for code in said]


def test_the_first_frame_costs_one_step_a_codebook_and_frames_are_not_delayed() -> None:
    made = session((12,), {})
    first = made.more(1)
    assert made._made == STREAMS
    codes = np.concatenate([first, whole(made)], axis=1)
    grid = made._state.grid_BSG
    frames = made.lengths_B[0]
    for stream in range(STREAMS):
        assert (grid[0, stream : stream + frames, stream] == codes[0, :, stream]).all()
        assert (grid[0, :stream, stream] == CODES).all() and (grid[0, stream + frames :, stream] == CODES).all()


def test_an_empty_text_beside_another_has_no_frames() -> None:
    made, alone = session((2, 9), {}), session((9,), {})
    codes, expected = whole(made), whole(alone)
    assert made.lengths_B.tolist() == [0, alone.lengths_B[0]]
    assert (codes[0] == SILENCE).all() and (codes[1] == expected[0]).all()


def test_a_prompt_changes_its_own_row_alone() -> None:
    prompt = Prompt(np.random.default_rng(0).integers(0, CODES, (2, 5, STREAMS)), np.array([5, 0]))
    made, without = session((9, 9), {}, prompt=prompt), session((9, 9), {})
    codes, expected = whole(made), whole(without)
    assert codes[0].tobytes() != expected[0].tobytes()
    length = without.lengths_B[1]
    assert (codes[1, :length] == expected[1, :length]).all()
    assert made._state.position_B[0] == made._state.position_B[1] + 5
