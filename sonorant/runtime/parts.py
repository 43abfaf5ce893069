"""Long speech in parts that equal the whole, in memory that does not grow with it. Knows nothing of text, or of who hears the parts.

A frame depends on so many frames on either side (`Context` of the bundle); each part is computed with those around it, which are then
cut off. What a runtime rounds differently for another shape is all the difference there is: about 1e-6 of full scale.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from sonorant.runtime.bundle import Context
from sonorant.runtime.runtimes import Runtime


def decode_parts(
    runtime: Runtime, states: NDArray[np.float32], ends: NDArray[np.int64], context: int, sizes: Sequence[int]
) -> Iterator[NDArray[np.float32]]:
    """The mel (B, M, T) of `runtime.decode` for all frames of a batch, in parts (B, M, size) from first to last.

    `context` is the decoder's; `sizes` are frames of the first parts, the last number stands for all that follow.
    """
    frames = int(ends[:, -1].max())
    for first, last in _borders(frames, sizes):
        before = max(0, first - context)
        mel = runtime.decode(states, ends, np.arange(before, min(frames, last + context)))
        yield mel[:, :, first - before : last - before]


def vocode_parts(
    runtime: Runtime, mel_parts: Iterable[NDArray[np.float32]], lengths: NDArray[np.int64], context: int, sizes: Sequence[int]
) -> Iterator[NDArray[np.float32]]:
    """The samples (B, T * hop) of `runtime.vocode`, in parts (B, size * hop), while the mel still comes in parts (B, M, any size).

    `lengths` (B,) are the frames of each row, `context` is the vocoder's; `sizes` as in `decode_parts`. A part is given as soon as the
    frames that it depends on are there, and no more mel is kept than the next one needs.
    """
    frames, coming = int(lengths.max()), iter(mel_parts)
    mel, start = next(coming), 0
    for first, last in _borders(frames, sizes):
        before, after = max(0, first - context), min(frames, last + context)
        mel, start = mel[:, :, before - start :], before
        while mel.shape[2] < after - before:
            mel = np.concatenate([mel, next(coming)], axis=2)
        window = np.ascontiguousarray(mel[:, :, : after - before])
        samples = runtime.vocode(window, np.clip(lengths - before, 0, after - before))
        hop = samples.shape[1] // window.shape[2]
        yield samples[:, (first - before) * hop : (last - before) * hop]


def speak(
    runtime: Runtime, states: NDArray[np.float32], ends: NDArray[np.int64], context: Context, limit: int
) -> NDArray[np.float32]:
    """What `encode` gave -> samples (B, T * hop). At most about `limit` frames, all rows together, are computed at once."""
    lengths = ends[:, -1]
    size = max(1, limit // len(ends))
    if lengths.max() <= size:
        return runtime.vocode(runtime.decode(states, ends, np.arange(lengths.max())), lengths)
    mel = decode_parts(runtime, states, ends, context.decoder, [size])
    return np.concatenate(list(vocode_parts(runtime, mel, lengths, context.vocoder, [size])), axis=1)


def _borders(frames: int, sizes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """First frame of each part, and the frame after its last."""
    first = number = 0
    while first < frames:
        last = min(frames, first + sizes[min(number, len(sizes) - 1)])
        yield first, last
        first, number = last, number + 1
