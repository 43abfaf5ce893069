"""One step on: from what the model said to the next state, by the same code for every runtime. Knows nothing of models and caches.

Written against the Python array API standard, so that numpy's and torch's arrays take the same path. Nothing depends on a value but by
`where`: on a device no step waits for the one before to be looked at, and the step can be compiled or captured.
"""

from __future__ import annotations

from typing import Any

from sonorant.decoding.guards import Verdict, watch
from sonorant.decoding.pointer import choose_hop
from sonorant.decoding.sampling import choose_codes
from sonorant.decoding.state import Array, Rules, State


def advance(
    state: State, rules: Rules, logits_BGK: Array, hop_BA: Array, xp: Any, *, sampled: bool = True, penalised: bool = True
) -> State:
    """The state after a step.

    Args:
        state: what the model was fed.
        rules: of the batch.
        logits_BGK: float32 (B, G, K), the model's codes for the grid's next row.
        hop_BA: float32 (B, A), logits of how far the pointer moves.
        xp: the arrays' namespace, `array_api_compat.array_namespace(logits_BGK)`.
        sampled: False skips what only drawn rows need, where `draws(rules)` is False.
        penalised: False skips the penalty, where `penalises(rules)` is False.
    """
    alive_B = state.ended_B < 0
    noise_B1G = xp.take(rules.noise_BSG, xp.reshape(state.step, (1,)), axis=1)
    streams = logits_BGK.shape[1]
    codes_BG, log_probability_BG = choose_codes(
        state, rules, logits_BGK, noise_B1G[:, 0, :streams], xp, sampled=sampled, penalised=penalised
    )
    hop_B, likeliest_B, log_survival_B = choose_hop(state, rules, hop_BA, noise_B1G[:, 0, streams], xp, sampled=sampled)

    frames_G = state.step - xp.arange(streams, device=logits_BGK.device)
    real_BG = (frames_G >= 0) & (alive_B[:, None] | (frames_G < state.ended_B[:, None]))
    codes_BG = xp.where(real_BG, codes_BG, logits_BGK.shape[2])
    watched = watch(state, rules, codes_BG, hop_B == 0, xp)
    hop_B = xp.where(watched.pushed_B, likeliest_B, hop_B)

    arrived_B = state.pointer_B + hop_B
    finished_B = alive_B & (arrived_B >= rules.phonemes_B)
    spent_B = alive_B & ~finished_B & (state.step + 1 >= rules.budget_B)
    left_B = finished_B | spent_B
    moved_B = alive_B & ~left_B & (hop_B > 0)
    rows_S = xp.arange(state.grid_BSG.shape[1], device=logits_BGK.device)
    return State(
        step=state.step + 1,
        codes_BG=codes_BG,
        # While the delayed streams are completed, the model sees the last frame's phoneme, as in training.
        pointer_B=xp.where(moved_B, arrived_B, state.pointer_B),
        age_B=xp.where(moved_B, 0, state.age_B + 1),
        log_survival_B=xp.where(moved_B, 0.0, log_survival_B),
        position_B=state.position_B + 1,
        ended_B=xp.where(left_B, state.step + 1, state.ended_B),
        verdict_B=xp.where(spent_B & (watched.verdict_B == 0), int(Verdict.BUDGET), watched.verdict_B),
        log_probability_B=state.log_probability_B + xp.sum(xp.where(real_BG, log_probability_BG, 0.0), axis=-1),
        silent_B=watched.silent_B,
        recent_BRG=watched.recent_BRG,
        repeats_BR=watched.repeats_BR,
        used_BGK=mark_used(state, codes_BG, xp) if penalised else state.used_BGK,
        grid_BSG=xp.where((rows_S == state.step)[:, None], codes_BG[:, None, :], state.grid_BSG),
    )


def mark_used(state: State, codes_BG: Array, xp: Any) -> Array:
    """`used_BGK` with the step at which each of the codes was chosen: this one."""
    numbers_K = xp.arange(state.used_BGK.shape[2], device=codes_BG.device)
    return xp.where(codes_BG[:, :, None] == numbers_K, state.step, state.used_BGK)


def looked_at(state: State, states_BNC: Array, xp: Any) -> Array:
    """The encoder's state of the phoneme that each row's pointer stands on (B, C), of (B, N, C)."""
    return xp.take_along_axis(states_BNC, state.pointer_B[:, None, None], axis=1)[:, 0]


def complete(state: State, xp: Any) -> Array:
    """bool (B,): the row has ended, and all its streams are there."""
    return (state.ended_B >= 0) & ((state.ended_B == 0) | (state.step >= state.ended_B + state.codes_BG.shape[1] - 1))
