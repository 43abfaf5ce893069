"""Which code comes next: the likeliest, or one drawn. Knows nothing of the pointer, or of when speech ends.

Drawn by inverting the cumulative distribution with one uniform number a code, made beforehand on the host: a seed gives the same codes
whatever runs the model, and nothing waits for a generator on a device.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sonorant.decoding.state import Array, Rules, State

Key = tuple[int, ...]
"""What a row's noise follows from: seed, number of the candidate, number of the attempt. Not its place in the batch."""


def uniform_noise(keys: Sequence[Key], steps: int, numbers: int) -> NDArray[np.float32]:
    """Uniform numbers in [0, 1), float32 (len(keys), steps, numbers), from a Philox generator for each key (Salmon et al. 2011).

    More steps begin with the same numbers.
    """
    generators = [np.random.Generator(np.random.Philox(np.random.SeedSequence(key))) for key in keys]
    return np.stack([generator.random((steps, numbers), dtype=np.float32) for generator in generators])


def choose_codes(
    state: State, rules: Rules, logits_BGK: Array, noise_BG: Array, xp: Any, *, sampled: bool, penalised: bool
) -> tuple[Array, Array]:
    """A code of each stream int64 (B, G), and its log-probability float32 (B, G) before penalty and temperature.

    Logits are penalised, divided by the temperature, cut to the top k, then to the top p of what is left: transformers' order.
    `sampled`, `penalised`: False skips work that changes nothing where no row is drawn, or none penalised.
    """
    scores_BGK = penalise(logits_BGK, state, rules, xp) if penalised else logits_BGK
    codes_BG = xp.argmax(scores_BGK, axis=-1)
    if sampled:
        drawn_BG = draw_codes(scores_BGK, rules, noise_BG, xp)
        codes_BG = xp.where(rules.temperature_B[:, None] > 0, drawn_BG, codes_BG)
    chosen_BG = xp.take_along_axis(logits_BGK, codes_BG[:, :, None], axis=-1)[:, :, 0]
    highest_BG = xp.max(logits_BGK, axis=-1)
    log_sum_BG = highest_BG + xp.log(xp.sum(xp.exp(logits_BGK - highest_BG[:, :, None]), axis=-1))
    return codes_BG, chosen_BG - log_sum_BG


def penalise(logits_BGK: Array, state: State, rules: Rules, xp: Any) -> Array:
    """Make the codes of the last steps less likely (Keskar et al. 2019, section 4.1)."""
    recent_BGK = state.step - state.used_BGK <= rules.recent_B[:, None, None]
    penalty_B11 = rules.penalty_B[:, None, None]
    penalised_BGK = xp.where(logits_BGK > 0, logits_BGK / penalty_B11, logits_BGK * penalty_B11)
    return xp.where(recent_BGK, penalised_BGK, logits_BGK)


def draw_codes(scores_BGK: Array, rules: Rules, noise_BG: Array, xp: Any) -> Array:
    """A code of each stream int64 (B, G), drawn at the rows' temperature from the top k, of them the top p (and what equals the last)."""
    temperature_B11 = xp.where(rules.temperature_B > 0, rules.temperature_B, 1.0)[:, None, None]
    scaled_BGK = scores_BGK / temperature_B11
    # Only values are sorted: codes stay in their order, so that equal ones are the same on every library.
    sorted_BGK = -xp.sort(-scaled_BGK, axis=-1)
    highest_BG1 = sorted_BGK[:, :, :1]
    weights_BGK = xp.exp(sorted_BGK - highest_BG1)
    top_BGK = xp.arange(scores_BGK.shape[-1], device=scores_BGK.device) < rules.top_k_B[:, None, None]
    sums_BGK = xp.cumulative_sum(xp.where(top_BGK, weights_BGK, 0.0), axis=-1)
    # A code is in the nucleus if those before it do not fill it yet; the likeliest always is.
    inside_BGK = top_BGK & (sums_BGK - weights_BGK < rules.top_p_B[:, None, None] * sums_BGK[:, :, -1:])
    lowest_BG1 = xp.min(xp.where(inside_BGK, sorted_BGK, highest_BG1), axis=-1, keepdims=True)
    weights_BGK = xp.where(scaled_BGK >= lowest_BG1, xp.exp(scaled_BGK - highest_BG1), 0.0)
    return rank_at(xp.cumulative_sum(weights_BGK, axis=-1), noise_BG, xp)


def rank_at(sums: Array, noise: Array, xp: Any) -> Array:
    """Where cumulative sums (..., K) first exceed so much of their total (...): int64 (...)."""
    # No product is the total itself: the largest noise is 1 - 2^-24, which takes more than half of the last bit from any float32.
    return xp.count_nonzero(sums <= noise[..., None] * sums[..., -1:], axis=-1)
