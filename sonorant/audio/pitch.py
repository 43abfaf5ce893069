"""The pitch of a recording, frame by frame, as models are told it, and what drives a vocoder's source by it.

Frames of a voice are rows: M of the log-mel, then `ROWS` of pitch. A vocoder is given two more (`SourceRows`). Shapes:
B items, D = M + 2 rows, T frames, S samples. Needs no torch."""

from collections.abc import Iterable, Iterator

import numpy as np

from sonorant.audio.arrays import Floats

REFERENCE = 200.0
"""Hz at which a pitch row is 0; an octave above it is 1."""
PITCH_STD = 0.25
"""Octaves: about how far a speaker's pitch goes up and down; the unit in which a model tells that of its tokens."""
ROWS = 2
"""Pitch, in octaves from `REFERENCE` at the beginning of the frame, and voicing, 0 to 1."""
SOURCE_ROWS = 2
"""Cycles of the fundamental that have passed at the beginning of the frame, their fraction alone, and the frame's
number."""
LOWEST, HIGHEST = 70.0, 500.0
"""Hz, where pitch is looked for."""
NOISE_FRAMES = 128
"""Frames after which a vocoder's noise begins again, and with it the frames' numbers."""
_PERIOD = 5.0  # ms, for which DIO joins its candidates; at a hop of 10.7 it errs twice as much
_DECIMATED = 5500.0  # Hz, at least, that DIO looks at: pitch needs no more, and half as many samples are half the time


def track_pitch(samples: Floats, rate: int, hop: int, frames: int) -> Floats:
    """Samples (S,) at `rate` Hz -> (frames, `ROWS`) float32, frame t beginning at sample t * hop.

    By DIO and StoneMask (Morise et al. 2009 and 2016; pyworld). Where nothing is voiced, pitch goes on in a line from
    one voiced part to the next, so that a model need not learn jumps; without any voice it is 0.
    """
    import pyworld  # takes a while

    signal = np.ascontiguousarray(samples, dtype=np.float64)
    speed = int(np.clip(rate // _DECIMATED, 1, 12))
    rough, times = pyworld.dio(signal, rate, LOWEST, HIGHEST, frame_period=_PERIOD, speed=speed)
    hertz = pyworld.stonemask(signal, rough, times, rate)
    voiced = hertz > 0
    begins = np.arange(frames) * (hop / rate)
    rows = np.zeros((frames, ROWS), np.float32)
    if voiced.any():
        rows[:, 0] = np.interp(begins, times[voiced], np.log2(hertz[voiced] / REFERENCE))
    rows[:, 1] = np.interp(begins + hop / rate / 2, times, 1.0 * voiced)  # the mel's frame is about its middle
    return rows


class SourceRows:
    """Appends `SOURCE_ROWS` to frames that come in parts, from first to last."""

    def __init__(self, rate: int, hop: int, first: int = 0) -> None:
        """`first`: the number of the first frame."""
        self._hop_seconds = hop / rate
        self._number = first
        self._passed: np.ndarray | None = None  # cycles at the beginning of the last frame, and its pitch in Hz (B, 2)

    def append(self, frames: Floats) -> Floats:
        """(B, D, T) whose last rows are `ROWS` -> (B, D + 2, T) float32."""
        count = frames.shape[2]
        hertz = REFERENCE * np.exp2(frames[:, -ROWS].astype(np.float64))
        passed, before = np.zeros((len(hertz), 1)), hertz[:, :1]
        if self._passed is not None:
            passed, before = self._passed[:, :1], self._passed[:, 1:]
        # Pitch changes in a line over a frame; the first frame of all begins with a whole cycle.
        cycles = (np.concatenate([before, hertz[:, :-1]], axis=1) + hertz) / 2 * self._hop_seconds
        if self._passed is None:
            cycles[:, 0] = 0.0
        phase = passed + cycles.cumsum(axis=1)
        self._passed = np.stack([phase[:, -1] % 1.0, hertz[:, -1]], axis=1)
        numbers = np.broadcast_to((self._number + np.arange(count)) % NOISE_FRAMES, phase.shape)
        self._number = (self._number + count) % NOISE_FRAMES
        return np.concatenate([frames, np.stack([phase % 1.0, numbers], axis=1)], axis=1).astype(np.float32)


def with_source(parts: Iterable[Floats], rate: int, hop: int, rows: int) -> Iterator[Floats]:
    """Parts (B, D, any) of frames, from first to last -> the same as a vocoder of `rows` rows takes them: with
    `SOURCE_ROWS` where it knows of pitch."""
    source = SourceRows(rate, hop)
    for part in parts:
        yield source.append(part) if part.shape[1] + SOURCE_ROWS == rows else part
