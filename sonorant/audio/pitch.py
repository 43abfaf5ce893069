"""Track the pitch of a recording per frame, and compute the rows that drive a vocoder's source.

A voice's frames have M rows of log-mel, then `ROWS` rows of pitch; a vocoder's input has `SOURCE_ROWS` more. Shapes: B
items, D = M + 2 rows, T frames, S samples.
"""

from collections.abc import Iterable, Iterator

import numpy as np

from sonorant.audio.arrays import Floats

REFERENCE = 200.0
"""Frequency in Hz of pitch 0; pitch 1 is an octave higher."""
PITCH_STD = 0.25
"""Typical standard deviation of a speaker's pitch in octaves, the unit of token pitch in the models."""
ROWS = 2
"""Number of pitch rows per frame: octaves from `REFERENCE` at the frame's start, and voicing, 0 to 1."""
SOURCE_ROWS = 2
"""Number of source rows per frame: phase of the fundamental at the frame's start in cycles, 0 to 1, and frame
number."""
LOWEST, HIGHEST = 70.0, 500.0
"""Range of the pitch search in Hz."""
NOISE_FRAMES = 128
"""Period in frames of a vocoder's noise and of frame numbers."""
_PERIOD = 5.0  # ms; with a hop of 10.7 ms, DIO's errors double
_DECIMATED = 5500.0  # Hz, minimum rate of DIO's decimated signal: half the samples take half the time


def track_pitch(samples: Floats, rate: int, hop: int, frames: int) -> Floats:
    """Estimate the pitch of samples (S,) at `rate` Hz as (frames, `ROWS`) float32; frame t starts at sample t * hop.
    Uses DIO and StoneMask (Morise et al. 2009 and 2016; pyworld). Pitch is interpolated between voiced parts, and 0 if
    nothing is voiced."""
    import pyworld  # slow to import

    signal = np.ascontiguousarray(samples, dtype=np.float64)
    speed = int(np.clip(rate // _DECIMATED, 1, 12))
    rough, times = pyworld.dio(signal, rate, LOWEST, HIGHEST, frame_period=_PERIOD, speed=speed)
    hertz = pyworld.stonemask(signal, rough, times, rate)
    voiced = hertz > 0
    begins = np.arange(frames) * (hop / rate)
    rows = np.zeros((frames, ROWS), np.float32)
    if voiced.any():
        rows[:, 0] = np.interp(begins, times[voiced], np.log2(hertz[voiced] / REFERENCE))
    rows[:, 1] = np.interp(begins + hop / rate / 2, times, 1.0 * voiced)  # a mel frame is centred half a hop later
    return rows


class SourceRows:
    """Appends the source rows to consecutive chunks of frames; frame numbers start at `first`."""

    def __init__(self, rate: int, hop: int, first: int = 0) -> None:
        self._hop_seconds = hop / rate
        self._number = first
        self._passed: np.ndarray | None = None  # phase at the start of the last frame, and its pitch in Hz (B, 2)

    def append(self, frames: Floats) -> Floats:
        """Append the source rows: (B, D, T) with the pitch rows last -> (B, D + 2, T) float32."""
        count = frames.shape[2]
        hertz = REFERENCE * np.exp2(frames[:, -ROWS].astype(np.float64))
        passed, before = np.zeros((len(hertz), 1)), hertz[:, :1]
        if self._passed is not None:
            passed, before = self._passed[:, :1], self._passed[:, 1:]
        # Pitch is linear within a frame; the first frame starts at phase 0.
        cycles = (np.concatenate([before, hertz[:, :-1]], axis=1) + hertz) / 2 * self._hop_seconds
        if self._passed is None:
            cycles[:, 0] = 0.0
        phase = passed + cycles.cumsum(axis=1)
        self._passed = np.stack([phase[:, -1] % 1.0, hertz[:, -1]], axis=1)
        numbers = np.broadcast_to((self._number + np.arange(count)) % NOISE_FRAMES, phase.shape)
        self._number = (self._number + count) % NOISE_FRAMES
        return np.concatenate([frames, np.stack([phase % 1.0, numbers], axis=1)], axis=1).astype(np.float32)


def with_source(parts: Iterable[Floats], rate: int, hop: int, rows: int) -> Iterator[Floats]:
    """Yield consecutive parts (B, D, any) for a vocoder with `rows` input rows, including source rows if it needs
    them."""
    source = SourceRows(rate, hop)
    for part in parts:
        yield source.append(part) if part.shape[1] + SOURCE_ROWS == rows else part
