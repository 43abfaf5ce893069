from dataclasses import replace
from typing import Any

import array_api_compat
import numpy as np
import pytest
from scipy.special import log_softmax
from scipy.stats import chisquare

from sonorant.extras.codec_lm.decoding.advance import choose_codes, draw_codes, rank_at, uniform_noise
from sonorant.extras.codec_lm.decoding.state import Rules, State
from tests.extras.codec_lm.decoding.tiny_model import CODES, CONFIG, STREAMS, start

DRAWS = 20_000
XP = array_api_compat.array_namespace(np.zeros(1))


def batch(rows: int, **change: Any) -> tuple[State, Rules]:
    return start(rows, replace(CONFIG, **change))


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
def test_codes_are_drawn_by_the_probabilities_of_the_reference(temperature: float, top_k: int, top_p: float) -> None:
    scores = np.random.default_rng(3).standard_normal(CODES).astype(np.float32) * 2
    _, rules = batch(1, temperature=temperature, top_k=top_k, top_p=top_p)
    noise = np.random.default_rng(4).random((1, DRAWS), dtype=np.float32)
    # Each stream is drawn independently.
    drawn = draw_codes(np.broadcast_to(scores, (1, DRAWS, CODES)), rules, noise, XP)[0]
    counts = np.bincount(drawn, minlength=CODES)
    expected = reference(scores.astype(np.float64), temperature, top_k, top_p) * DRAWS
    assert (counts[expected == 0] == 0).all()
    if (expected > 0).sum() > 1:
        assert chisquare(counts[expected > 0], expected[expected > 0]).pvalue > 1e-4


def test_log_probabilities_are_the_models_own() -> None:
    state, rules = batch(2, temperature=0.3, top_k=3)
    logits = np.random.default_rng(1).standard_normal((2, STREAMS, CODES)).astype(np.float32)
    noise = np.full((2, STREAMS), 0.9, np.float32)
    codes, found = choose_codes(state, rules, logits, noise, XP, sampled=True, penalised=False)
    expected = np.take_along_axis(log_softmax(logits, axis=-1), codes[..., None], -1)[..., 0]
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("noise", [0.0, 0.5, np.float32(1 - 2**-24)])
def test_the_ends_of_the_noise_draw_possible_codes(noise: float) -> None:
    totals = np.append(np.random.default_rng(0).uniform(1, 1000, 10_000), [1, 1 + 2**-23, 2 - 2**-23, 2, 512])
    sums = np.cumsum(np.array([0.25, 0.5, 0.25, 0.0, 0.0], np.float32) * totals.astype(np.float32)[:, None], axis=-1)
    assert (rank_at(sums, np.full(len(sums), noise, np.float32), XP) == {0.0: 0, 0.5: 1}.get(noise, 2)).all()


def test_noise_follows_from_its_key() -> None:
    keys = [(1, 0, 0), (1, 1, 0), (1, 0, 1), (2, 0, 0)]
    noise = uniform_noise(keys, 20, 3)
    assert noise.dtype == np.float32 and noise.min() >= 0 and noise.max() < 1
    assert len({row.tobytes() for row in noise}) == 4
    assert (uniform_noise(keys[2:3], 20, 3)[0] == noise[2]).all()  # independent of the row
    assert (uniform_noise(keys, 50, 3)[:, :20] == noise).all()  # more steps start with the same noise
