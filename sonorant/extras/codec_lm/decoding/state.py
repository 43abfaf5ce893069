"""State of a batch during decoding: `State` changes with each step, `Rules` are constant. Both are tuples of numpy or
torch arrays of constant shape (int64, float32, bool), so that a step can be compiled or captured. Shapes: B rows, N
phonemes, G codebooks, K codes per codebook, S maximum steps, R longest loop. Codebook g is delayed by g steps: row t of
the grid contains the codes of frames t, t - 1, ..., t - G + 1, and K where there is no frame."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np

from sonorant.audio.arrays import Floats, Ints
from sonorant.speech.decoding import DecodingConfig, DecodingDescription

Array = Any
LONGEST_PERIOD = 8
"""Maximum length of a detected loop, in frames."""
EMPTY = 2
"""Number of phonemes in an empty text: `^` and `$`."""


class Rules(NamedTuple):
    """Constants of a batch, with one value per row so that different requests can share the batch."""

    noise_BSG: Array
    """Uniform numbers in 0..1 (B, S, G + 1): one per codebook and one for the pointer."""
    temperature_B: Array
    """Sampling temperature; 0 means greedy."""
    top_k_B: Array
    """Top-k limit; K means none."""
    top_p_B: Array
    penalty_B: Array
    """Repetition penalty; 1 means none."""
    recent_B: Array
    """Number of steps for which a chosen code is penalised."""
    median_B: Array
    """Whether the pointer moves by the median rule instead of by sampling."""
    phonemes_B: Array
    """Number of phonemes; a row ends when its pointer leaves the last one."""
    budget_B: Array
    """Maximum number of frames."""
    longest_phoneme_B: Array
    longest_silence_B: Array
    longest_repeat_B: Array
    """Maximum length of a loop in frames."""
    silence_BG: Array
    """Codes of silence, the same in each row."""


class State(NamedTuple):
    step_B: Array
    codes_BG: Array
    """Codes chosen in the last step; K before the first step."""
    pointer_B: Array
    """Phoneme index of the next frame; constant after a row's end."""
    age_B: Array
    """Frames since the pointer moved."""
    log_survival_B: Array
    """Log-probability that the phoneme lasts at least this long."""
    position_B: Array
    """Position of the next step: the number of filled cache slots."""
    ended_B: Array
    """Number of frames of an ended row; -1 if not ended. The last codebook ends G - 1 steps later."""
    finish_reason_B: Array
    log_probability_B: Array
    """Sum of the log-probabilities of the codes so far, before temperature and penalty."""
    silent_B: Array
    """Number of consecutive silent steps."""
    recent_BRG: Array
    """Last rows of the grid, newest first; -1 where there is none yet."""
    repeats_BR: Array
    """For each period r + 1, the number of consecutive steps that equal the step r + 1 earlier."""
    used_BGK: Array
    """Step at which each code was last chosen; `NEVER` if none."""
    grid_BSG: Array
    """Delayed grid of all codes so far; K elsewhere."""
    pointers_BS: Array
    """Pointer at each step so far; 0 elsewhere."""


NEVER = -(2**40)
"""Value of `State.used_BGK` for a code that was never chosen."""


def make_rules(
    lengths_B: Ints, description: DecodingDescription, config: DecodingConfig, draw: Callable[[int, int], Floats]
) -> Rules:
    """Return the rules of a batch of texts as numpy arrays. `lengths_B`: phonemes of each row, including `^` and `$`;
    `draw`: (steps, numbers) -> uniform noise float32 (B, steps, numbers), called only if needed."""
    rows, codebooks = len(lengths_B), description.codebooks
    budget_B = np.ceil(config.budget * description.frames_per_phoneme.p99 * lengths_B).astype(np.int64)
    budget_B[lengths_B <= EMPTY] = 0
    steps = int(budget_B.max(initial=0)) + codebooks - 1
    drawn = config.temperature > 0 or config.advance == "sample"
    noise_BSG = draw(steps, codebooks + 1) if drawn else np.zeros((rows, steps, codebooks + 1), np.float32)

    def frames(seconds: float) -> Ints:
        return np.full(rows, max(1, round(seconds * description.frames_per_second)), np.int64)

    return Rules(
        noise_BSG=noise_BSG,
        temperature_B=np.full(rows, config.temperature, np.float32),
        top_k_B=np.full(rows, config.top_k or description.codes, np.int64),
        top_p_B=np.full(rows, config.top_p, np.float32),
        penalty_B=np.full(rows, config.repetition_penalty, np.float32),
        recent_B=np.full(rows, config.repetition_window, np.int64),
        median_B=np.full(rows, config.advance == "median"),
        phonemes_B=lengths_B.astype(np.int64),
        budget_B=budget_B,
        longest_phoneme_B=frames(config.longest_phoneme),
        longest_silence_B=frames(config.longest_silence),
        longest_repeat_B=frames(config.longest_repeat),
        silence_BG=np.tile(np.array(description.silence, np.int64), (rows, 1)),
    )


def start_state(rules: Rules, prompt_lengths_B: Ints, description: DecodingDescription) -> State:
    rows, steps, _ = rules.noise_BSG.shape
    codebooks, codes = description.codebooks, description.codes
    return State(
        step_B=np.zeros(rows, np.int64),
        codes_BG=np.full((rows, codebooks), codes, np.int64),
        pointer_B=np.zeros(rows, np.int64),
        age_B=np.zeros(rows, np.int64),
        log_survival_B=np.zeros(rows, np.float32),
        position_B=(1 + prompt_lengths_B).astype(np.int64),
        ended_B=np.where(rules.budget_B == 0, 0, -1).astype(np.int64),
        finish_reason_B=np.zeros(rows, np.int64),
        log_probability_B=np.zeros(rows, np.float32),
        silent_B=np.zeros(rows, np.int64),
        recent_BRG=np.full((rows, LONGEST_PERIOD, codebooks), -1, np.int64),
        repeats_BR=np.zeros((rows, LONGEST_PERIOD), np.int64),
        used_BGK=np.full((rows, codebooks, codes), NEVER, np.int64),
        grid_BSG=np.full((rows, steps, codebooks), codes, np.int64),
        pointers_BS=np.zeros((rows, steps), np.int64),
    )


Batch = TypeVar("Batch", State, Rules)


def _more_rows(batch: Batch, rows: int, mode: Literal["constant", "edge"]) -> Batch:
    if not rows:
        return batch
    return type(batch)(*(np.pad(field, [(0, rows)] + [(0, 0)] * (field.ndim - 1), mode=mode) for field in batch))


def draws(rules: Rules) -> bool:
    return bool((rules.temperature_B > 0).any() or not rules.median_B.all())


def penalises(rules: Rules) -> bool:
    return bool(((rules.penalty_B != 1) & (rules.recent_B > 0)).any())


def padded_rules(rules: Rules, rows: int, steps: int) -> Rules:
    """Repeat the last row until there are `rows`, and pad the noise to `steps`."""
    wider, longer = _more_rows(rules, rows - len(rules.budget_B), "edge"), steps - rules.noise_BSG.shape[1]
    return wider._replace(noise_BSG=np.pad(wider.noise_BSG, [(0, 0), (0, longer), (0, 0)]))


def padded_state(state: State, rows: int, steps: int) -> State:
    """Append finished rows until there are `rows`, and pad the arrays to `steps`."""
    longer, no_code = steps - state.grid_BSG.shape[1], state.used_BGK.shape[2]
    wider = _more_rows(state, rows - len(state.ended_B), "constant")
    return wider._replace(
        grid_BSG=np.pad(wider.grid_BSG, [(0, 0), (0, longer), (0, 0)], constant_values=no_code),
        pointers_BS=np.pad(wider.pointers_BS, [(0, 0), (0, longer)]),
    )


def cut_state(state: State, rows: int, steps: int) -> State:
    shorter = State(*(field[:rows] for field in state))
    return shorter._replace(grid_BSG=shorter.grid_BSG[:, :steps], pointers_BS=shorter.pointers_BS[:, :steps])


def row_of(batch: Batch, row: int) -> Batch:
    return type(batch)(*(field[row : row + 1] for field in batch))


def one_row(state: State, row: int, rules: Rules) -> State:
    """Return one row of joined states, cut to the steps of `rules`."""
    return cut_state(row_of(state, row), 1, rules.noise_BSG.shape[1])


def joined_states(states: Sequence[State]) -> State:
    """Concatenate the rows of all states, padded to the largest number of steps."""
    steps = max(state.grid_BSG.shape[1] for state in states)
    wide = [padded_state(state, len(state.ended_B), steps) for state in states]
    return State(*map(np.concatenate, zip(*wide, strict=True)))


def joined_rules(rules: Sequence[Rules]) -> Rules:
    steps = max(one.noise_BSG.shape[1] for one in rules)
    wide = [padded_rules(one, len(one.budget_B), steps) for one in rules]
    return Rules(*map(np.concatenate, zip(*wide, strict=True)))
