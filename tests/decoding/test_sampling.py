"""Codes are drawn as often as a reference says, the same on numpy and torch, and noise follows from its key alone."""

from __future__ import annotations

from dataclasses import replace

import array_api_compat
import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from sonorant.decoding.advance import choose_codes, draw_codes, rank_at, uniform_noise
from sonorant.decoding.state import Rules, State, make_rules, start_state
from tests.decoding.tiny_model import CODES, CONFIG, DESCRIPTION, STREAMS

DRAWS = 20_000
XP = array_api_compat.array_namespace(np.zeros(1))


def batch(rows: int, **change: object) -> tuple[State, Rules]:
    lengths = np.full(rows, 5)
    config = replace(CONFIG, **change)  # type: ignore[arg-type]
    rules = make_rules(
        lengths, DESCRIPTION, config, lambda steps, numbers: uniform_noise([(0, 0, 0)] * rows, steps, numbers)
    )
    return start_state(rules, lengths, np.zeros(rows, np.int64), DESCRIPTION), rules


def reference(scores: np.ndarray, temperature: float, top_k: int, top_p: float) -> np.ndarray:
    """Probabilities by the definitions, code by code."""
    scaled = np.exp(scores / temperature - (scores / temperature).max())
    order = sorted(range(len(scores)), key=lambda code: -scores[code])[: top_k or None]
    allowed = scaled / scaled[order].sum()
    nucleus, mass = [], 0.0
    for code in order:
        nucleus.append(code)
        mass += allowed[code]
        if mass >= top_p:
            break
    found = np.zeros(len(scores))
    found[nucleus] = allowed[nucleus]
    return found / found.sum()


@pytest.mark.parametrize("temperature", [0.5, 1.0, 1.7])
@pytest.mark.parametrize(("top_k", "top_p"), [(0, 1.0), (4, 1.0), (0, 0.8), (6, 0.7), (1, 1.0), (0, 0.01)])
def test_codes_are_drawn_as_often_as_the_reference_says(temperature: float, top_k: int, top_p: float) -> None:
    scores = np.random.default_rng(3).standard_normal(CODES).astype(np.float32) * 2
    _, rules = batch(1, temperature=temperature, top_k=top_k, top_p=top_p)
    noise = np.random.default_rng(4).random((1, DRAWS), dtype=np.float32)
    # Each stream is a draw of its own.
    drawn = draw_codes(np.broadcast_to(scores, (1, DRAWS, CODES)), rules, noise, XP)[0]
    counts = np.bincount(drawn, minlength=CODES)
    expected = reference(scores.astype(np.float64), temperature, top_k, top_p) * DRAWS
    assert (counts[expected == 0] == 0).all()
    if (expected > 0).sum() > 1:
        assert chisquare(counts[expected > 0], expected[expected > 0]).pvalue > 1e-4


def test_rows_keep_their_own_settings() -> None:
    state, rules = batch(4, temperature=1.0)
    rules = rules._replace(temperature_B=np.array([0, 1, 1, 1], np.float32), top_k_B=np.array([CODES, 1, CODES, CODES]))
    logits = np.random.default_rng(0).standard_normal((4, STREAMS, CODES)).astype(np.float32)
    noise = np.full((4, STREAMS), 0.999, np.float32)
    codes, _ = choose_codes(state, rules, logits, noise, XP, sampled=True, penalised=False)
    likeliest = logits.argmax(-1)
    assert (codes[:2] == likeliest[:2]).all()
    shares = np.exp(logits[2:]).cumsum(-1) / np.exp(logits[2:]).sum(-1, keepdims=True)
    assert (codes[2:] == (shares < 0.999).sum(-1)).all() and (codes[2:] != likeliest[2:]).any()


def test_log_probabilities_are_the_models_own() -> None:
    state, rules = batch(2, temperature=0.3, top_k=3)
    logits = np.random.default_rng(1).standard_normal((2, STREAMS, CODES)).astype(np.float32)
    codes, found = choose_codes(
        state, rules, logits, np.full((2, STREAMS), 0.9, np.float32), XP, sampled=True, penalised=False
    )
    expected = torch.log_softmax(torch.from_numpy(logits), dim=-1).gather(-1, torch.from_numpy(codes)[..., None])[
        ..., 0
    ]
    np.testing.assert_allclose(found, expected.numpy(), atol=1e-6)


def test_the_penalty_is_for_recent_codes_only() -> None:
    state, rules = batch(1, repetition_penalty=2.0, repetition_window=3)
    used = state.used_BGK.copy()
    used[0, 0, 5], used[0, 0, 6] = 7, 6
    state = state._replace(used_BGK=used, step=np.array(10))
    logits = np.zeros((1, STREAMS, CODES), np.float32)
    logits[0, :, 5], logits[0, :, 6], logits[0, :, 2] = 3.0, 2.0, 1.8
    codes, _ = choose_codes(state, rules, logits, np.zeros((1, STREAMS), np.float32), XP, sampled=False, penalised=True)
    assert codes[0].tolist() == [6, 5]  # 5 was chosen 3 steps ago in the first stream, 6 four; neither in the second
    codes, _ = choose_codes(
        state, rules, logits - 4.5, np.zeros((1, STREAMS), np.float32), XP, sampled=False, penalised=True
    )
    assert codes[0].tolist() == [6, 5]  # negative logits are lowered too


@pytest.mark.parametrize("noise", [0.0, 0.5, np.float32(1 - 2**-24)])
def test_the_ends_of_the_noise_are_codes_that_may_be_drawn(noise: float) -> None:
    totals = np.append(np.random.default_rng(0).uniform(1, 1000, 10_000), [1, 1 + 2**-23, 2 - 2**-23, 2, 512]).astype(
        np.float32
    )
    sums = np.cumsum(np.array([0.25, 0.5, 0.25, 0.0, 0.0], np.float32) * totals[:, None], axis=-1)
    assert (rank_at(sums, np.full(len(sums), noise, np.float32), XP) == {0.0: 0, 0.5: 1}.get(noise, 2)).all()


@pytest.mark.parametrize(
    "change", [{}, {"temperature": 0.8, "top_k": 5}, {"temperature": 1.0, "top_p": 0.6, "repetition_penalty": 1.3}]
)
def test_numpy_and_torch_choose_the_same(change: dict) -> None:
    state, rules = batch(8, **change)
    xp = array_api_compat.array_namespace(torch.zeros(1))
    draw = np.random.default_rng(5)
    for _ in range(50):
        logits = draw.standard_normal((8, STREAMS, CODES)).astype(np.float32) * 3
        noise = draw.random((8, STREAMS), dtype=np.float32)
        codes, probability = choose_codes(state, rules, logits, noise, XP, sampled=True, penalised=True)
        held = State(*map(torch.as_tensor, state)), Rules(*map(torch.as_tensor, rules))
        other = choose_codes(*held, torch.from_numpy(logits), torch.from_numpy(noise), xp, sampled=True, penalised=True)
        assert (codes == other[0].numpy()).all()
        np.testing.assert_allclose(probability, other[1].numpy(), atol=1e-5)
        assert codes.dtype == np.int64 and other[0].dtype == torch.int64


def test_noise_follows_from_its_key() -> None:
    keys = [(1, 0, 0), (1, 1, 0), (1, 0, 1), (2, 0, 0)]
    noise = uniform_noise(keys, 20, 3)
    assert noise.dtype == np.float32 and noise.min() >= 0 and noise.max() < 1
    assert len({row.tobytes() for row in noise}) == 4
    assert (uniform_noise(keys[2:3], 20, 3)[0] == noise[2]).all()  # not by the row
    assert (uniform_noise(keys, 50, 3)[:, :20] == noise).all()  # more steps begin the same
