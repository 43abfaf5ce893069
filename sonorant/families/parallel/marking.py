"""Apply pauses, rate and pitch from the text's markup to the encoder's durations and pitch."""

from collections.abc import Iterable, Iterator

import numpy as np

from sonorant.audio.arrays import Floats, Ints
from sonorant.audio.pitch import PITCH_STD
from sonorant.speech.speaking import Marking, fade

_PITCH = -2
"""Index of a token's pitch in the encoder's states; energy is last."""


def marked_states(states_BNP: Floats, ends_BN: Ints, marking: Marking, frames_per_second: float) -> tuple[Floats, Ints]:
    """Apply a phrase's markup to its encoder output (B = 1): divide durations by the rate or set them to the pause's
    length, at least one frame, and shift the pitch."""
    durations_N = np.diff(ends_BN[0], prepend=0) / marking.rate_N.astype(np.float64)
    held_N = np.isfinite(marking.seconds_N)
    durations_N[held_N] = marking.seconds_N[held_N] * frames_per_second
    durations_N = np.maximum(durations_N, 1.0)
    ends_BN = np.floor(durations_N.cumsum() + 0.5).astype(ends_BN.dtype)[None]
    if marking.pitch_N.any():
        states_BNP = states_BNP.copy()
        states_BNP[0, :, _PITCH] += marking.pitch_N / (12 * PITCH_STD)
    return states_BNP, ends_BN


def silenced(parts: Iterable[Floats], ends_BN: Ints, marking: Marking, hop: int, rate: int) -> Iterator[Floats]:
    """Mute marked pauses in a phrase's samples, given in parts (S,), because a lengthened pause contains room noise if
    the voice learned it."""
    gain = np.append(fade(rate), np.float32(0.0))
    most = len(gain) - 1
    held_N = np.flatnonzero(np.isfinite(marking.seconds_N))
    first_K = np.concatenate([[0], ends_BN[0]])[held_N] * hop
    last_K = ends_BN[0][held_N] * hop
    start = 0
    for samples in parts:
        place_S = np.arange(start, start + len(samples))
        start += len(samples)
        for first, last in zip(first_K, last_K, strict=True):
            if last - first > 2 * most and first < start and last > place_S[0]:
                samples = samples * gain[np.minimum(place_S - first, last - 1 - place_S).clip(0, most)]
        yield samples
