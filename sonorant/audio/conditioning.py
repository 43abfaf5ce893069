"""What is done to a recording before it is learned from: edges trimmed, pauses shortened, offset and level corrected.

`plan` measures and decides once, `apply` carries it out wherever the recording is heard. The recording itself stays as
it is: what was planned stands in the manifest, and another plan needs no other recording.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from sonorant.audio.arrays import Floats
from sonorant.audio.loudness import loudness, true_peak
from sonorant.audio.voice_activity import Span

JOINT = 0.005
"""Seconds over which the two sides of a shortened pause are crossfaded."""
_TELLING = 0.1
"""Seconds without speech that tell an offset."""


@dataclass(frozen=True, kw_only=True)
class ConditionConfig:
    """Section `condition` of params.yaml: what is done to each recording before it is learned from; null leaves it."""

    margin: float | None
    """Seconds of silence left before the first and after the last speech; null: the edges stay."""
    longest_pause: float | None
    """Seconds that a pause within the speech keeps at most; null: they stay."""
    remove_dc: bool
    """Whether a constant offset is subtracted."""
    loudness: float | None
    """Integrated loudness in LUFS that each recording is brought to; null: the level stays."""
    true_peak: float | None
    """Largest true peak in dBTP. The gain is lowered to keep to it, nothing is limited; null: no bound."""

    def __post_init__(self) -> None:
        if self.margin is not None and self.margin < 0:
            raise ValueError(f"margin ({self.margin}) is seconds of silence to leave, so at least 0")
        if self.longest_pause is not None and self.longest_pause < 4 * JOINT:
            raise ValueError(f"longest_pause ({self.longest_pause}) must be at least {4 * JOINT:g} seconds")
        if self.loudness is not None and not -70 < self.loudness < 0:
            raise ValueError(f"loudness ({self.loudness}) is in LUFS, between -70 and 0")
        if self.true_peak is not None and self.true_peak > 0:
            raise ValueError(f"true_peak ({self.true_peak}) is in dB of full scale, so at most 0")
        if self.true_peak is not None and self.loudness is None:
            raise ValueError("true_peak bounds the gain that loudness asks for; set loudness, or true_peak to null")


@dataclass(frozen=True, kw_only=True, slots=True)
class Level:
    """What conditioning changes, measured."""

    seconds: float
    loudness: float | None
    """LUFS; None if too quiet to be measured."""
    true_peak: float | None
    """dBTP; None for digital silence."""
    dc: float
    """Constant offset, full scale 1: the mean where nobody speaks."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Conditioning:
    """What is done to one recording; times are seconds within it."""

    start: float | None = None
    """What lies before is cut off; None: nothing."""
    end: float | None = None
    """What lies after is cut off; None: nothing."""
    dropped: tuple[Span, ...] = ()
    """Parts of pauses left out, by rising time."""
    dc: float = 0.0
    """Offset subtracted, full scale 1."""
    gain_db: float = 0.0
    before: Level
    after: Level

    @property
    def trimmed(self) -> float:
        """Seconds cut off at both edges."""
        after = 0.0 if self.end is None else self.before.seconds - self.end
        return (self.start or 0.0) + after

    @property
    def shortened(self) -> float:
        """Seconds of pauses left out."""
        return sum(end - start + JOINT for start, end in self.dropped)


def plan(samples: Floats, rate: int, speech: list[Span], config: ConditionConfig) -> Conditioning:
    """Decide how to condition samples (S,), finite, at `rate` Hz; `speech`: spans in seconds, as `locate_speech` finds.

    Where nobody was found to speak, edges and pauses stay.
    """
    before = measure_level(samples, rate, speech)
    cut = Conditioning(before=before, after=before, dc=before.dc if config.remove_dc else 0.0)
    if speech and config.margin is not None:
        start, end = round(speech[0][0] - config.margin, 4), round(speech[-1][1] + config.margin, 4)
        cut = replace(cut, start=start if start > 0 else None, end=end if end < before.seconds else None)
    if config.longest_pause is not None:
        cut = replace(cut, dropped=_excess(speech, config.longest_pause))
    kept = apply(samples, rate, cut)
    level = before if kept is samples else replace(measure_level(kept, rate), dc=float(f"{before.dc - cut.dc:.3g}"))
    gain_db = _gain(level, config)
    return replace(cut, gain_db=gain_db, after=_raised(level, gain_db))


def measure_level(samples: Floats, rate: int, speech: Sequence[Span] = ()) -> Level:
    """Length, loudness, true peak and offset of samples (S,), finite, at `rate` Hz; `speech`: spans in seconds."""
    dc = _offset(samples, rate, speech)
    peak = true_peak(samples, rate)
    return Level(
        seconds=round(len(samples) / rate, 6),
        loudness=_rounded(loudness(samples, rate)),
        true_peak=None if peak is None else math.ceil(100 * peak) / 100,  # up: a bound on it holds
        dc=float(f"{dc:.3g}"),
    )


def _offset(samples: Floats, rate: int, speech: Sequence[Span]) -> float:
    """Mean of the samples where nobody speaks, or of all where that is too short to tell.

    A voice's own samples need no mean of zero: the glottis' pulses go one way. Taking their mean off would put a step
    of it into every silence.
    """
    silent = np.ones(len(samples), bool)
    for start, end in speech:
        silent[round(start * rate) : round(end * rate)] = False
    heard = samples[silent] if silent.sum() >= _TELLING * rate else samples
    return float(heard.mean(dtype=np.float64)) if len(heard) else 0.0


def apply(samples: Floats, rate: int, conditioning: Conditioning) -> Floats:
    """Samples (S,) float32 at `rate` Hz, the ones that were planned for, conditioned: float32 (S',).

    Pure. Nothing planned: the same array. A step that is not planned leaves every bit it would have changed.
    """
    heard = samples
    if conditioning.dc:
        heard = heard - np.float32(conditioning.dc)
    pieces = [heard[first:last] for first, last in _kept(len(samples), rate, conditioning)]
    if len(pieces) > 1 or len(pieces[0]) < len(heard):
        heard = joined(pieces, rate)
    if conditioning.gain_db:
        heard = heard * np.float32(10 ** (conditioning.gain_db / 20))
    return heard


def _kept(count: int, rate: int, conditioning: Conditioning) -> list[tuple[int, int]]:
    """First and last sample, exclusive, of what stays, by rising time."""
    start = round((conditioning.start or 0.0) * rate)
    end = count if conditioning.end is None else min(round(conditioning.end * rate), count)
    edges = [start, *(round(edge * rate) for span in conditioning.dropped for edge in span), end]
    return list(zip(edges[::2], edges[1::2], strict=True))


def joined(pieces: list[Floats], rate: int) -> Floats:
    """Pieces one after the other. At each joint the last 5 ms of one fade into the first 5 ms of the next, with
    constant power, since noise on both sides is unrelated; the next begins 5 ms earlier for it."""
    joined = pieces[0]
    for piece in pieces[1:]:
        width = min(round(JOINT * rate), len(joined), len(piece))
        turn = np.linspace(0, np.pi / 2, width, endpoint=False, dtype=np.float32)
        faded = joined[len(joined) - width :] * np.cos(turn) + piece[:width] * np.sin(turn)
        joined = np.concatenate([joined[: len(joined) - width], faded, piece[width:]])
    return np.ascontiguousarray(joined)


def _excess(speech: list[Span], longest: float) -> tuple[Span, ...]:
    """The middle of each pause that is longer than `longest`; the joint takes a crossfade's width, left in for it."""
    pauses = [(before[1], after[0]) for before, after in pairwise(speech)]
    return tuple(
        (round(start + (longest + JOINT) / 2, 4), round(end - (longest + JOINT) / 2, 4))
        for start, end in pauses
        if end - start > longest + 2 * JOINT
    )


def _gain(level: Level, config: ConditionConfig) -> float:
    """Gain in dB, rounded down to hundredths, so that the bound holds."""
    if config.loudness is None or level.loudness is None or level.true_peak is None:
        return 0.0
    gain = config.loudness - level.loudness
    bound = gain if config.true_peak is None else config.true_peak - level.true_peak
    return math.floor(100 * min(gain, bound) + 1e-6) / 100


def _raised(level: Level, gain_db: float) -> Level:
    """A level after a gain, which moves all of it alike.

    Blocks that a loss takes below the standard's gate of -70 LUFS no longer count, so a measured loudness may differ,
    by a quarter of a dB where speech is brought to -39 LUFS, by less than 0.05 from -28 on.
    """
    if not gain_db:
        return level
    raised = [None if value is None else _rounded(value + gain_db) for value in (level.loudness, level.true_peak)]
    dc = float(f"{level.dc * 10 ** (gain_db / 20):.3g}")
    return replace(level, loudness=raised[0], true_peak=raised[1], dc=dc)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)
