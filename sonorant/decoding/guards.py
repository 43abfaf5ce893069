"""What may go wrong with speech that is made token by token, and how it is noticed while it goes wrong. Knows nothing of retries."""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

from sonorant.decoding.state import LONGEST_PERIOD, Array, Rules, State


class Verdict(IntEnum):
    """How an utterance went: what went wrong first."""

    WELL = 0
    """The pointer left the text's last phoneme in time."""
    BUDGET = 1
    """It was cut where its budget ended."""
    STUCK = 2
    """The pointer stood on one phoneme for too long and was pushed on."""
    SILENCE = 3
    """Silence longer than a pause."""
    REPETITION = 4
    """The same few frames, 1 to 8, again and again."""


class Watch(NamedTuple):
    """What the guards make of a step."""

    silent_B: Array
    """As in `State`."""
    recent_BRG: Array
    """As in `State`."""
    repeats_BR: Array
    """As in `State`."""
    verdict_B: Array
    """As in `State`, budgets apart."""
    pushed_B: Array
    """bool: the pointer must move, because what goes wrong lasts as long as it has stood where it is."""


def watch(state: State, rules: Rules, codes_BG: Array, stays_B: Array, xp: Any) -> Watch:
    """Look at the step that has just been made: its codes (B, G), and whether the pointer would stay (B,) bool.

    Silence and repetition that go on while the pointer moves are only noted: to skip phonemes would not end them.
    """
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
    found_B = xp.where(stuck_B, int(Verdict.STUCK), 0)
    found_B = xp.where(loop_B, int(Verdict.REPETITION), found_B)
    found_B = xp.where(silence_B, int(Verdict.SILENCE), found_B)
    standing_B = (silence_B & (stood_B >= rules.longest_silence_B)) | (loop_B & (stood_B >= rules.longest_repeat_B))
    return Watch(
        silent_B=silent_B,
        recent_BRG=recent_BRG,
        repeats_BR=repeats_BR,
        verdict_B=xp.where(state.verdict_B == 0, found_B, state.verdict_B),
        pushed_B=stays_B & (stuck_B | standing_B),
    )
