"""One decoding step from logits to the next state, shared by all runtimes. Codes are sampled by inverting the
cumulative distribution at uniform numbers generated on the host, so a seed gives the same codes under any runtime.
Written in the Python array API standard, for numpy and torch. All branches use `where`, so that a device never waits
for the host and a step can be compiled or captured."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sonorant.extras.codec_lm.decoding.state import LONGEST_PERIOD, Array, Rules, State
from sonorant.speech.speaking import FinishReason


def watch(state: State, rules: Rules, codes_BG: Array, stays_B: Array, xp: Any) -> tuple[State, Array]:
    """Check a step's codes (B, G) for silence and loops, and whether the pointer is stuck. `stays_B` (B,) bool: whether
    the pointer would stay. Returns the state with the faults found, and (B,) bool: whether to push a pointer that has
    not moved during the fault. If the pointer moves, faults are only recorded, because skipping phonemes would not end
    them."""
    all_silent_B = xp.all(codes_BG == rules.silence_BG, axis=-1)
    silent_B = xp.where(all_silent_B, state.silent_B + 1, 0)
    again_BR = xp.all(codes_BG[:, None, :] == state.recent_BRG, axis=-1)
    repeats_BR = xp.where(again_BR, state.repeats_BR + 1, 0)
    recent_BRG = xp.concat([codes_BG[:, None, :], state.recent_BRG[:, : LONGEST_PERIOD - 1]], axis=1)

    alive_B = state.ended_B < 0
    stood_B = state.age_B + 1
    stuck_B = alive_B & stays_B & (stood_B >= rules.longest_phoneme_B)
    silence_B = alive_B & (silent_B >= rules.longest_silence_B)
    loop_B = alive_B & ~all_silent_B & (xp.max(repeats_BR, axis=-1) >= rules.longest_repeat_B)
    found_B = xp.where(stuck_B, int(FinishReason.STUCK), 0)
    found_B = xp.where(loop_B, int(FinishReason.REPETITION), found_B)
    found_B = xp.where(silence_B, int(FinishReason.SILENCE), found_B)
    standing_B = (silence_B & (stood_B >= rules.longest_silence_B)) | (loop_B & (stood_B >= rules.longest_repeat_B))
    watched = state._replace(
        silent_B=silent_B,
        recent_BRG=recent_BRG,
        repeats_BR=repeats_BR,
        finish_reason_B=xp.where(state.finish_reason_B == 0, found_B, state.finish_reason_B),
    )
    return watched, stays_B & (stuck_B | standing_B)


Key = tuple[int, ...]
"""Seed, candidate and attempt, which determine a row's noise in any batch."""


def uniform_noise(keys: Sequence[Key], steps: int, numbers: int) -> NDArray[np.float32]:
    """Return uniform numbers in [0, 1), float32 (len(keys), steps, numbers), from Philox (Salmon et al. 2011). A larger
    `steps` only appends numbers."""
    generators = [np.random.Generator(np.random.Philox(np.random.SeedSequence(key))) for key in keys]
    return np.stack([generator.random((steps, numbers), dtype=np.float32) for generator in generators])


def choose_codes(
    state: State, rules: Rules, logits_BGK: Array, noise_BG: Array, xp: Any, *, sampled: bool, penalised: bool
) -> tuple[Array, Array]:
    """Choose a code per codebook. Returns codes int64 (B, G) and their log-probabilities float32 (B, G) before penalty
    and temperature. Operations are in the order of transformers: penalty, temperature, top k, top p."""
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
    """Reduce the scores of recently chosen codes (Keskar et al. 2019, section 4.1)."""
    recent_BGK = state.step_B[:, None, None] - state.used_BGK <= rules.recent_B[:, None, None]
    penalty_B11 = rules.penalty_B[:, None, None]
    penalised_BGK = xp.where(logits_BGK > 0, logits_BGK / penalty_B11, logits_BGK * penalty_B11)
    return xp.where(recent_BGK, penalised_BGK, logits_BGK)


def draw_codes(scores_BGK: Array, rules: Rules, noise_BG: Array, xp: Any) -> Array:
    """Draw a code per codebook, int64 (B, G), from the most likely codes: top k, then top p, including ties."""
    temperature_B11 = xp.where(rules.temperature_B > 0, rules.temperature_B, 1.0)[:, None, None]
    scaled_BGK = scores_BGK / temperature_B11
    # Only values are sorted. Codes keep their order, so ties break alike in every library.
    sorted_BGK = -xp.sort(-scaled_BGK, axis=-1)
    highest_BG1 = sorted_BGK[:, :, :1]
    weights_BGK = xp.exp(sorted_BGK - highest_BG1)
    top_BGK = xp.arange(scores_BGK.shape[-1], device=scores_BGK.device) < rules.top_k_B[:, None, None]
    sums_BGK = xp.cumulative_sum(xp.where(top_BGK, weights_BGK, 0.0), axis=-1)
    # The nucleus ends with the code that reaches top p; the most likely code is always included.
    inside_BGK = top_BGK & (sums_BGK - weights_BGK < rules.top_p_B[:, None, None] * sums_BGK[:, :, -1:])
    lowest_BG1 = xp.min(xp.where(inside_BGK, sorted_BGK, highest_BG1), axis=-1, keepdims=True)
    weights_BGK = xp.where(scaled_BGK >= lowest_BG1, xp.exp(scaled_BGK - highest_BG1), 0.0)
    return rank_at(xp.cumulative_sum(weights_BGK, axis=-1), noise_BG, xp)


def rank_at(sums: Array, noise: Array, xp: Any) -> Array:
    """Return the index int64 (...) at which cumulative sums (..., K) first exceed the fraction `noise` (...) of their
    total."""
    # The product is always below the total: the largest noise, 1 - 2^-24, subtracts over half a unit in the last place.
    return xp.count_nonzero(sums <= noise[..., None] * sums[..., -1:], axis=-1)


LOG_HALF = math.log(0.5)


def choose_advance(
    state: State, rules: Rules, advance_BA: Array, noise_B: Array, xp: Any, *, sampled: bool
) -> tuple[Array, Array, Array]:
    """Return the number of phonemes to move, the number to move if pushed (both int64), and the log-probability of
    having stayed since arrival (float32), (B,) each.

    Logits `advance_BA`: 0 = stay, a = move by a phonemes. Staying is nearly always most likely, so a greedy pointer
    would get stuck. The median rule instead moves at the median of the phoneme's duration: once the probability of
    staying this long is below one half. Without this rule, the move is drawn with the uniform `noise_B`.
    """
    highest_B1 = xp.max(advance_BA, axis=-1, keepdims=True)
    weights_BA = xp.exp(advance_BA - highest_B1)
    log_stay_B = (advance_BA - highest_B1)[:, 0] - xp.log(xp.sum(weights_BA, axis=-1))
    log_survival_B = state.log_survival_B + log_stay_B
    likeliest_B = xp.argmax(advance_BA[:, 1:], axis=-1) + 1
    advance_B = xp.where(log_survival_B < LOG_HALF, likeliest_B, 0)
    if sampled:
        drawn_B = rank_at(xp.cumulative_sum(weights_BA, axis=-1), noise_B, xp)
        advance_B = xp.where(rules.median_B, advance_B, drawn_B)
    return advance_B, likeliest_B, log_survival_B


def advance(
    state: State,
    rules: Rules,
    logits_BGK: Array,
    advance_BA: Array,
    xp: Any,
    *,
    sampled: bool,
    penalised: bool,
) -> State:
    """Return the next state. `logits_BGK` (float32) are for the grid's next row, `advance_BA` (float32) for the
    pointer's move. `xp` is the array namespace; `sampled` is `draws(rules)`, `penalised` is `penalises(rules)`."""
    noise_BG = xp.take_along_axis(rules.noise_BSG, state.step_B[:, None, None], axis=1)[:, 0]
    codebooks = logits_BGK.shape[1]
    codes_BG, log_probability_BG = choose_codes(
        state, rules, logits_BGK, noise_BG[:, :codebooks], xp, sampled=sampled, penalised=penalised
    )
    advance_B, likeliest_B, log_survival_B = choose_advance(
        state, rules, advance_BA, noise_BG[:, codebooks], xp, sampled=sampled
    )
    real_BG = is_real(state, xp)
    codes_BG = xp.where(real_BG, codes_BG, logits_BGK.shape[2])
    watched, pushed_B = watch(state, rules, codes_BG, advance_B == 0, xp)
    moved = move(watched, rules, xp.where(pushed_B, likeliest_B, advance_B), log_survival_B, xp)
    now_BS = xp.arange(state.grid_BSG.shape[1], device=logits_BGK.device) == state.step_B[:, None]
    return moved._replace(
        step_B=state.step_B + 1,
        codes_BG=codes_BG,
        position_B=state.position_B + 1,
        log_probability_B=state.log_probability_B + xp.sum(xp.where(real_BG, log_probability_BG, 0.0), axis=-1),
        used_BGK=mark_used(state, codes_BG, xp) if penalised else state.used_BGK,
        grid_BSG=xp.where(now_BS[:, :, None], codes_BG[:, None, :], state.grid_BSG),
        pointers_BS=xp.where(now_BS, state.pointer_B[:, None], state.pointers_BS),
    )


def is_real(state: State, xp: Any) -> Array:
    """Whether each codebook has a code in this step, bool (B, G)."""
    frames_BG = state.step_B[:, None] - xp.arange(state.codes_BG.shape[1], device=state.codes_BG.device)
    return (frames_BG >= 0) & ((state.ended_B < 0)[:, None] | (frames_BG < state.ended_B[:, None]))


def move(state: State, rules: Rules, advance_B: Array, log_survival_B: Array, xp: Any) -> State:
    """Move the pointer. A row ends when the pointer leaves the last phoneme or the frame budget is exhausted."""
    alive_B = state.ended_B < 0
    arrived_B = state.pointer_B + advance_B
    finished_B = alive_B & (arrived_B >= rules.phonemes_B)
    spent_B = alive_B & ~finished_B & (state.step_B + 1 >= rules.budget_B)
    left_B = finished_B | spent_B
    moved_B = alive_B & ~left_B & (advance_B > 0)
    reason_B = state.finish_reason_B
    return state._replace(
        # The pointer stays while the delayed codebooks are completed, as in training.
        pointer_B=xp.where(moved_B, arrived_B, state.pointer_B),
        age_B=xp.where(moved_B, 0, state.age_B + 1),
        log_survival_B=xp.where(moved_B, 0.0, log_survival_B),
        ended_B=xp.where(left_B, state.step_B + 1, state.ended_B),
        finish_reason_B=xp.where(spent_B & (reason_B == 0), int(FinishReason.BUDGET), reason_B),
    )


def mark_used(state: State, codes_BG: Array, xp: Any) -> Array:
    numbers_K = xp.arange(state.used_BGK.shape[2], device=codes_BG.device)
    return xp.where(codes_BG[:, :, None] == numbers_K, state.step_B[:, None, None], state.used_BGK)


def looked_at(state: State, states_BNC: Array, xp: Any) -> Array:
    """Return the encoder state (B, C) at each row's pointer, from states (B, N, C)."""
    return xp.take_along_axis(states_BNC, state.pointer_B[:, None, None], axis=1)[:, 0]


def complete(state: State, xp: Any) -> Array:
    """Whether each row has ended with all its codebooks complete, bool (B,)."""
    return (state.ended_B >= 0) & ((state.ended_B == 0) | (state.step_B >= state.ended_B + state.codes_BG.shape[1] - 1))
