"""How far the pointer into the text moves after a frame. Knows nothing of codes, or of pointers that stand still for too long."""

from __future__ import annotations

import math
from typing import Any

from sonorant.decoding.sampling import rank_at
from sonorant.decoding.state import Array, Rules, State

LOG_HALF = math.log(0.5)


def choose_hop(state: State, rules: Rules, hop_BA: Array, noise_B: Array, xp: Any, *, sampled: bool) -> tuple[Array, Array, Array]:
    """By how many phonemes to move (B,), where to move if it had to (B,), both int64, and the survival since arrival, log float32 (B,).

    The likeliest class after each frame would be to stay nearly always: the hazard of leaving rarely reaches one half in any one frame, and
    such a pointer sticks. So the median rule: it leaves where the probability to have stayed so long falls below one half, which is the
    median of the phoneme's duration under the model; then by the likeliest number. Or the class is drawn.

    Args:
        hop_BA: logits of the classes: 0 = stay, a = move by a phonemes.
        noise_B: uniform numbers.
        sampled: False skips what is for rows that draw.
    """
    highest_B1 = xp.max(hop_BA, axis=-1, keepdims=True)
    weights_BA = xp.exp(hop_BA - highest_B1)
    log_stay_B = (hop_BA - highest_B1)[:, 0] - xp.log(xp.sum(weights_BA, axis=-1))
    log_survival_B = state.log_survival_B + log_stay_B
    likeliest_B = xp.argmax(hop_BA[:, 1:], axis=-1) + 1
    hop_B = xp.where(log_survival_B < LOG_HALF, likeliest_B, 0)
    if sampled:
        drawn_B = rank_at(xp.cumulative_sum(weights_BA, axis=-1), noise_B, xp)
        hop_B = xp.where(rules.median_B, hop_B, drawn_B)
    return hop_B, likeliest_B, log_survival_B
