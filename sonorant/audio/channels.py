"""Several channels of one recording made one, and what there is to say about them. Shapes: S samples, C channels."""

from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

DEAD_DB = 40.0
"""A channel this far below the loudest one over the whole recording is dead: a cable with hum, or nothing."""
ALIKE = 0.9
"""Correlation, of either sign, from which two channels are said to hold one sound."""
_ACTIVE_DB = 25.0
"""Blocks this far below the loudest are pauses: what all channels hear there, as a hum, says nothing of the sound."""
_BLOCK_SECONDS = 0.05
_LAG_SECONDS = 0.05
"""As far as sound goes in 17 metres."""
Samples = NDArray[np.float32]


class Channels(StrEnum):
    """What the channels of a recording are to each other."""

    ONE = "one channel"
    ALIKE = "alike"
    DEAD = "one alive, others dead"
    UNLIKE = "not alike"
    INVERTED = "phase-inverted"


@dataclass(frozen=True, kw_only=True)
class ChannelFinding:
    """What was found in the channels, and the figure it rests on."""

    kind: Channels
    correlation: float | None = None
    """Of the two live channels that are least alike, over the parts where there is sound; None for fewer than two."""
    pair: tuple[int, int] = (0, 0)
    """These two channels."""


def mix(samples_SC: Samples) -> Samples:
    """Average the live channels: float32 (S,). A dead one would halve the level, so it is left out."""
    if samples_SC.shape[1] == 1:
        return np.ascontiguousarray(samples_SC[:, 0])
    live = np.flatnonzero(live_channels(samples_SC))
    total: Samples = sum((samples_SC[:, channel] for channel in live[1:]), start=samples_SC[:, live[0]].copy())
    return total / np.float32(len(live))


def live_channels(samples_SC: Samples) -> NDArray[np.bool_]:
    """Which channels are not dead, bool (C,). All are where all are silent or one is not finite."""
    if not len(samples_SC):
        return np.ones(samples_SC.shape[1], dtype=bool)
    with np.errstate(invalid="ignore"):  # infinity minus infinity
        centred = _centred(samples_SC)
        power = np.array([channel @ channel for channel in centred])
    return np.where(np.isfinite(power).all(), power >= power.max() * 10 ** (-DEAD_DB / 10), True)


def channel_finding(samples_SC: Samples, rate: int) -> ChannelFinding:
    """What the channels (finite) at `rate` Hz are to each other."""
    live = live_channels(samples_SC)
    if live.sum() < 2:
        return ChannelFinding(kind=Channels.ONE if len(live) == 1 else Channels.DEAD)
    pairs = combinations(np.flatnonzero(live).tolist(), 2)
    lowest, pair = min((_correlation(samples_SC[:, pair], rate), pair) for pair in pairs)
    kind = Channels.INVERTED if lowest <= -ALIKE else Channels.ALIKE if lowest >= ALIKE else Channels.UNLIKE
    return ChannelFinding(kind=kind, correlation=lowest, pair=pair)


def lag_of(samples_S2: Samples, rate: int) -> tuple[float, float]:
    """How much later the second channel has the first one's sound, in seconds, and the correlation then, of the sign it
    has: what tells two microphones at a distance from two sounds."""
    from scipy.signal import correlate  # not needed for speaking

    reach = min(round(_LAG_SECONDS * rate), len(samples_S2) - 1)
    first, second = _centred(samples_S2)
    products = correlate(second, first, method="fft")[len(first) - 1 - reach : len(first) + reach]
    products /= max(float(np.sqrt(first @ first) * np.sqrt(second @ second)), 1e-20)
    best = int(np.abs(products).argmax())
    return (best - reach) / rate, float(products[best])


def _correlation(samples_S2: Samples, rate: int) -> float:
    """Pearson's correlation over the blocks that hold sound; 1.0 if none does."""
    if not len(samples_S2):
        return 1.0
    block = min(max(round(_BLOCK_SECONDS * rate), 1), len(samples_S2))
    first, second = _centred(samples_S2)[:, : len(samples_S2) // block * block].reshape(2, -1, block)
    powers = np.stack([np.square(first).sum(axis=1), np.square(second).sum(axis=1)])
    active = powers.sum(axis=0) > powers.sum(axis=0).max(initial=0.0) * 10 ** (-_ACTIVE_DB / 10)
    scale = float(np.sqrt(np.prod(powers[:, active].sum(axis=1, dtype=np.float64))))
    return float((first * second)[active].sum(dtype=np.float64) / scale) if scale else 1.0


def _centred(samples_SC: Samples) -> Samples:
    """The channels one after the other (C, S), which is faster to work on, without direct current."""
    samples = np.array(samples_SC.T, order="C")
    samples -= samples.mean(axis=1, dtype=np.float64, keepdims=True).astype(np.float32)
    return samples
