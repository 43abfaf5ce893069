"""Condition a recording for training: trim edges, shorten pauses, correct offset and level. The manifest stores the
`plan`; the recording is never changed."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Annotated

import numpy as np

from sonorant.audio.arrays import Floats
from sonorant.audio.loudness import loudness, true_peak
from sonorant.audio.voice_activity import Span
from sonorant.checked import Amount, Interval, Positive

JOINT = 0.005
"""Length in seconds of the crossfade where a pause is shortened."""
_TELLING = 0.1
"""Minimum seconds of silence from which an offset is measured."""


@dataclass(frozen=True, kw_only=True)
class ConditionConfig:
    """Section `condition` of params.yaml. None disables a step."""

    margin: Amount | None = 0.15
    """Seconds of silence to keep before and after the speech."""
    longest_pause: Annotated[Positive, Interval(ge=4 * JOINT)] | None = None
    """Maximum length in seconds of a pause within the speech."""
    remove_dc: bool = True
    """Whether to subtract the constant offset."""
    loudness: Annotated[float, Interval(gt=-70, lt=0)] | None = -20.0
    """Target integrated loudness in LUFS of each recording."""
    true_peak: Annotated[float, Interval(ge=-70, le=0)] | None = -1.0
    """Maximum true peak in dBTP; the gain is reduced if necessary."""

    def __post_init__(self) -> None:
        if self.true_peak is not None and self.loudness is None:
            raise ValueError("true_peak limits the gain for loudness; set loudness, or set true_peak to null")


@dataclass(frozen=True, kw_only=True, slots=True)
class Level:
    seconds: float
    loudness: float | None
    """Integrated loudness in LUFS; None if too quiet."""
    true_peak: float | None
    """True peak in dBTP; None for digital silence. """
    dc: float
    """Constant offset; full scale is 1."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Conditioning:
    """Changes to one recording; times are seconds within it."""

    start: float | None = None
    """Start of the kept part; None means the recording's start."""
    end: float | None = None
    """End of the kept part; None means the recording's end."""
    dropped: tuple[Span, ...] = ()
    """Removed parts of pauses, in order."""
    dc: float = 0.0
    """Offset to subtract."""
    gain_db: float = 0.0
    before: Level
    after: Level

    @property
    def trimmed(self) -> float:
        after = 0.0 if self.end is None else self.before.seconds - self.end
        return (self.start or 0.0) + after

    @property
    def shortened(self) -> float:
        return sum(end - start + JOINT for start, end in self.dropped)


def plan(samples: Floats, rate: int, speech: list[Span], config: ConditionConfig) -> Conditioning:
    """Decide how to condition finite samples (S,) at `rate` Hz. `speech`: result of `locate_speech`."""
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
    """Measure finite samples (S,) at `rate` Hz; `speech`: spans in seconds."""
    dc = _offset(samples, rate, speech)
    peak = true_peak(samples, rate)
    return Level(
        seconds=round(len(samples) / rate, 6),
        loudness=_rounded(loudness(samples, rate)),
        true_peak=None if peak is None else math.ceil(100 * peak) / 100,  # rounded up to respect `true_peak`
        dc=float(f"{dc:.3g}"),
    )


def _offset(samples: Floats, rate: int, speech: Sequence[Span]) -> float:
    """Return the mean of the samples outside the speech, or of all samples if there is too little silence. Speech
    itself has a nonzero mean, because glottal pulses are asymmetric."""
    silent = np.ones(len(samples), bool)
    for start, end in speech:
        silent[round(start * rate) : round(end * rate)] = False
    heard = samples[silent] if silent.sum() >= _TELLING * rate else samples
    return float(heard.mean(dtype=np.float64)) if len(heard) else 0.0


def apply(samples: Floats, rate: int, conditioning: Conditioning) -> Floats:
    """Apply a plan to samples (S,) float32. Return float32 (S',), the same array if the plan is empty."""
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
    start = round((conditioning.start or 0.0) * rate)
    end = count if conditioning.end is None else min(round(conditioning.end * rate), count)
    edges = [start, *(round(edge * rate) for span in conditioning.dropped for edge in span), end]
    return list(zip(edges[::2], edges[1::2], strict=True))


def joined(pieces: list[Floats], rate: int) -> Floats:
    """Join pieces with constant-power crossfades of `JOINT` seconds, because the noise on both sides is
    uncorrelated."""
    joined = pieces[0]
    for piece in pieces[1:]:
        width = min(round(JOINT * rate), len(joined), len(piece))
        turn = np.linspace(0, np.pi / 2, width, endpoint=False, dtype=np.float32)
        faded = joined[len(joined) - width :] * np.cos(turn) + piece[:width] * np.sin(turn)
        joined = np.concatenate([joined[: len(joined) - width], faded, piece[width:]])
    return np.ascontiguousarray(joined)


def _excess(speech: list[Span], longest: float) -> tuple[Span, ...]:
    """Return the span to cut from the middle of each pause longer than `longest`, leaving room for the crossfade."""
    pauses = [(before[1], after[0]) for before, after in pairwise(speech)]
    return tuple(
        (round(start + (longest + JOINT) / 2, 4), round(end - (longest + JOINT) / 2, 4))
        for start, end in pauses
        if end - start > longest + 2 * JOINT
    )


def _gain(level: Level, config: ConditionConfig) -> float:
    """Return the gain in dB, rounded down to hundredths so that `true_peak` is not exceeded."""
    if config.loudness is None or level.loudness is None or level.true_peak is None:
        return 0.0
    gain = config.loudness - level.loudness
    bound = gain if config.true_peak is None else config.true_peak - level.true_peak
    return math.floor(100 * min(gain, bound) + 1e-6) / 100


def _raised(level: Level, gain_db: float) -> Level:
    """Return the level after a gain, without measuring again. Blocks that fall below the gate of -70 LUFS are ignored:
    an error of 0.25 dB at -39 LUFS."""
    if not gain_db:
        return level
    raised = [None if value is None else _rounded(value + gain_db) for value in (level.loudness, level.true_peak)]
    dc = float(f"{level.dc * 10 ** (gain_db / 20):.3g}")
    return replace(level, loudness=raised[0], true_peak=raised[1], dc=dc)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)
