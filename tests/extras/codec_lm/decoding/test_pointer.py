"""The median rule leaves a phoneme at its median duration; taking the likeliest class never would."""

from dataclasses import replace

import array_api_compat
import numpy as np
import pytest
from scipy.stats import chisquare

from sonorant.extras.codec_lm.decoding.advance import choose_advance
from tests.extras.codec_lm.decoding.tiny_model import ADVANCES, CONFIG, start

XP = array_api_compat.array_namespace(np.zeros(1))


def hazard(probability: float) -> np.ndarray:
    """Logits that leave the phoneme with this probability, most likely by two phonemes."""
    leave = probability * np.array([0.3, 0.6, 0.1])
    return np.log(np.array([[1 - probability, *leave]], np.float32))


@pytest.mark.parametrize("probability", [0.02, 0.1, 0.3, 0.45])
def test_the_pointer_leaves_at_the_median_of_the_duration(probability: float) -> None:
    state, rules = start(1, CONFIG)
    stood = 0
    while True:
        stood += 1
        hop, likeliest, survival = choose_advance(state, rules, hazard(probability), np.zeros(1), XP, sampled=False)
        assert likeliest[0] == 2
        if hop[0]:
            break
        state = state._replace(log_survival_B=survival)
    assert hop[0] == 2
    # Durations are geometric: the first number of frames that less than half of them exceed.
    assert 1 < stood == next(frames for frames in range(1, 1000) if (1 - probability) ** frames < 0.5)


def test_advances_are_drawn_by_their_probabilities() -> None:
    rows = 20_000
    state, rules = start(rows, replace(CONFIG, advance="sample"))
    noise = np.random.default_rng(0).random(rows, dtype=np.float32)
    hop, _, _ = choose_advance(state, rules, np.tile(hazard(0.4), (rows, 1)), noise, XP, sampled=True)
    counts = np.bincount(hop, minlength=ADVANCES)
    assert chisquare(counts, rows * np.array([0.6, 0.12, 0.24, 0.04])).pvalue > 1e-4


def test_rows_follow_their_own_rule() -> None:
    state, rules = start(2, CONFIG)
    rules, noise = rules._replace(median_B=np.array([True, False])), np.full(2, 0.999, np.float32)
    hop, _, _ = choose_advance(state, rules, np.tile(hazard(0.3), (2, 1)), noise, XP, sampled=True)
    assert hop.tolist() == [0, 3]
