"""Mix the channels of a recording to mono, and compare them. Shapes: S samples, C channels."""

from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

DEAD_DB = 40.0
"""Level in dB below the loudest channel at which a channel is dead: cable hum or silence."""
ALIKE = 0.9
"""Correlation, of either sign, above which two channels hold the same sound."""
_ACTIVE_DB = 25.0
"""Level in dB below the loudest block at which a block is a pause, which is ignored because channels may share hum."""
_BLOCK_SECONDS = 0.05
_LAG_SECONDS = 0.05
"""Maximum delay between channels in seconds; sound travels 17 metres in this time."""
Samples = NDArray[np.float32]


class Channels(StrEnum):
    ONE = "one channel"
    ALIKE = "alike"
    DEAD = "one alive, others dead"
    UNLIKE = "not alike"
    INVERTED = "phase-inverted"


@dataclass(frozen=True, kw_only=True)
class ChannelFinding:
    kind: Channels
    correlation: float | None = None
    """Correlation of the two least similar live channels, outside pauses."""
    pair: tuple[int, int] = (0, 0)


def mix(samples_SC: Samples) -> Samples:
    """Return the average of the live channels, float32 (S,)."""
    if samples_SC.shape[1] == 1:
        return np.ascontiguousarray(samples_SC[:, 0])
    live = np.flatnonzero(live_channels(samples_SC))
    total: Samples = sum((samples_SC[:, channel] for channel in live[1:]), start=samples_SC[:, live[0]].copy())
    return total / np.float32(len(live))


def live_channels(samples_SC: Samples) -> NDArray[np.bool_]:
    """Return whether each channel is live, bool (C,). All True if all are silent or one is not finite."""
    if not len(samples_SC):
        return np.ones(samples_SC.shape[1], dtype=bool)
    with np.errstate(invalid="ignore"):  # infinity minus infinity
        centred = _centred(samples_SC)
        power = np.array([channel @ channel for channel in centred])
    return np.where(np.isfinite(power).all(), power >= power.max() * 10 ** (-DEAD_DB / 10), True)


def channel_finding(samples_SC: Samples, rate: int) -> ChannelFinding:
    """Compare the channels of finite samples (S, C) at `rate` Hz."""
    live = live_channels(samples_SC)
    if live.sum() < 2:
        return ChannelFinding(kind=Channels.ONE if len(live) == 1 else Channels.DEAD)
    pairs = combinations(np.flatnonzero(live).tolist(), 2)
    lowest, pair = min((_correlation(samples_SC[:, pair], rate), pair) for pair in pairs)
    kind = Channels.INVERTED if lowest <= -ALIKE else Channels.ALIKE if lowest >= ALIKE else Channels.UNLIKE
    return ChannelFinding(kind=kind, correlation=lowest, pair=pair)


def lag_of(samples_S2: Samples, rate: int) -> tuple[float, float]:
    """Return the delay of channel 2 after channel 1 in seconds, and the signed correlation at that delay. A high
    correlation at a nonzero delay means two microphones."""
    from scipy.signal import correlate  # not needed for synthesis

    reach = min(round(_LAG_SECONDS * rate), len(samples_S2) - 1)
    first, second = _centred(samples_S2)
    products = correlate(second, first, method="fft")[len(first) - 1 - reach : len(first) + reach]
    products /= max(float(np.sqrt(first @ first) * np.sqrt(second @ second)), 1e-20)
    best = int(np.abs(products).argmax())
    return (best - reach) / rate, float(products[best])


def _correlation(samples_S2: Samples, rate: int) -> float:
    if not len(samples_S2):
        return 1.0
    block = min(max(round(_BLOCK_SECONDS * rate), 1), len(samples_S2))
    first, second = _centred(samples_S2)[:, : len(samples_S2) // block * block].reshape(2, -1, block)
    powers = np.stack([np.square(first).sum(axis=1), np.square(second).sum(axis=1)])
    active = powers.sum(axis=0) > powers.sum(axis=0).max(initial=0.0) * 10 ** (-_ACTIVE_DB / 10)
    scale = float(np.sqrt(np.prod(powers[:, active].sum(axis=1, dtype=np.float64))))
    return float((first * second)[active].sum(dtype=np.float64) / scale) if scale else 1.0


def _centred(samples_SC: Samples) -> Samples:
    samples = np.array(samples_SC.T, order="C")
    samples -= samples.mean(axis=1, dtype=np.float64, keepdims=True).astype(np.float32)
    return samples
