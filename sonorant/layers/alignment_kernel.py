"""Alignment search for CPUs, compiled by numba, on one thread without the GIL. The machine code is cached."""

from collections.abc import Callable
from typing import Any

import numba
import numpy as np


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    try:
        return numba.njit(cache=True, nogil=True)(function)
    except RuntimeError:  # no writable folder for the cache
        return numba.njit(nogil=True)(function)


@compiled
def search(score_BNT: np.ndarray, tokens_B: np.ndarray, frames_B: np.ndarray, durations_BN: np.ndarray) -> None:
    """Fill `durations_BN` (int64, initially zero). As in the torch search, sums are float64, and the latest start wins
    a tie."""
    for item in range(len(tokens_B)):
        tokens, frames = tokens_B[item], frames_B[item]
        best_T = np.full(frames + 1, -np.inf)
        best_T[0] = 0.0
        starts_NT = np.zeros((tokens, frames), dtype=np.int32)
        for token in range(tokens):
            prefix, running, start = 0.0, -np.inf, 0
            before = best_T[0]
            best_T[0] = -np.inf
            for frame in range(frames):
                candidate = before - prefix
                if candidate >= running or np.isnan(candidate):
                    running, start = candidate, frame
                starts_NT[token, frame] = start
                prefix += np.float64(score_BNT[item, token, frame])
                before = best_T[frame + 1]
                best_T[frame + 1] = prefix + running
        end = frames
        for token in range(tokens - 1, -1, -1):
            start = starts_NT[token, max(end - 1, 0)]
            durations_BN[item, token] = end - start
            end = start
