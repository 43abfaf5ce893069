"""Best paths of a text through the aligner's frames, compiled by numba: with words left out, and with sound left over.

Paths are CTC's: each phone owns one frame or more, blanks may stand between phones and must where a phone repeats.
Shapes: T frames, N phones. All scores are natural logarithms.
"""

import numba
import numpy as np
from numpy.typing import NDArray

from sonorant.audio.arrays import Doubles, Ints

NEVER = -1e9


@numba.njit(cache=True, nogil=True)
def prefix_scores(emission_TL: Doubles, phones_N: Ints) -> Doubles:
    """(N + 1, T + 1) float64: [n, t] is the best score of the first n phones, whole, on the first t frames."""
    frames, count = emission_TL.shape[0], len(phones_N)
    states = 2 * count + 1
    scores = np.full((count + 1, frames + 1), NEVER)
    scores[0, 0] = 0.0
    now, before = np.full(states, NEVER), np.full(states, NEVER)
    for t in range(frames):
        now, before = before, now
        for s in range(states):
            phone = s // 2
            label = phones_N[phone] if s % 2 else 0
            if t == 0:
                best = 0.0 if s < 2 else NEVER
            else:
                best = before[s]
                if s > 0:
                    best = max(best, before[s - 1])
                if s % 2 and s > 1 and phones_N[phone] != phones_N[phone - 1]:
                    best = max(best, before[s - 2])
            now[s] = best + emission_TL[t, label]
        scores[0, t + 1] = now[0]
        for n in range(1, count + 1):
            scores[n, t + 1] = max(now[2 * n - 1], now[2 * n])
    return scores


def suffix_scores(emission_TL: Doubles, phones_N: Ints) -> Doubles:
    """(N + 1, T + 1) float64: [n, t] is the best score of all phones from the n-th on, whole, on the frames from t."""
    return prefix_scores(emission_TL[::-1].copy(), phones_N[::-1].copy())[::-1, ::-1]


@numba.njit(cache=True, nogil=True)
def best_path(emission_TL: Doubles, phones_N: Ints) -> NDArray[np.int32]:
    """(T,) int32: the place in the text of the phone that owns each frame, -1 for a blank."""
    frames, count = emission_TL.shape[0], len(phones_N)
    states = 2 * count + 1
    now, before = np.full(states, NEVER), np.full(states, NEVER)
    came_TS = np.zeros((frames, states), np.int8)
    for t in range(frames):
        now, before = before, now
        for s in range(states):
            phone = s // 2
            label = phones_N[phone] if s % 2 else 0
            best, came = before[s], 0
            if t == 0:
                best = 0.0 if s < 2 else NEVER
            else:
                if s > 0 and before[s - 1] > best:
                    best, came = before[s - 1], 1
                if s % 2 and s > 1 and phones_N[phone] != phones_N[phone - 1] and before[s - 2] > best:
                    best, came = before[s - 2], 2
            now[s] = best + emission_TL[t, label]
            came_TS[t, s] = came
    path_T = np.empty(frames, np.int32)
    state = states - 1 if now[states - 1] > now[states - 2] else states - 2
    for t in range(frames - 1, -1, -1):
        path_T[t] = state // 2 if state % 2 else -1
        state -= came_TS[t, state]
    return path_T


@numba.njit(cache=True, nogil=True)
def best_gap(before_T: Doubles, filler_T: Doubles, after_T: Doubles) -> tuple[float, int, int]:
    """The best score, start and end of a gap between two parts of a text. `before_T` and `after_T` (T + 1,): scores of
    the part before on the first t frames, and of the part after on the rest; `filler_T` (T + 1,): score of filling the
    first t frames with anything."""
    best, start, end = 2 * NEVER, 0, 0
    head, head_at = 2 * NEVER, 0
    for t in range(len(filler_T)):
        if before_T[t] - filler_T[t] > head:
            head, head_at = before_T[t] - filler_T[t], t
        whole = head + filler_T[t] + after_T[t]
        if whole > best:
            best, start, end = whole, head_at, t
    return best, start, end
