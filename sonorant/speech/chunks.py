"""Compute long speech in chunks, in bounded memory. The chunks equal the full output up to rounding (1e-6 of full
scale), because each is computed with its context (`ReceptiveField`), which is then cut off."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sonorant.audio.arrays import Floats, Ints
from sonorant.speech.runtimes import Runtime


def decode_chunks(
    runtime: Runtime, states: Floats, ends: Ints, receptive_field: int, sizes: Sequence[int]
) -> Iterator[Floats]:
    """Yield the mel (B, M, T) of `runtime.decode` in parts (B, M, size). `receptive_field`: the decoder's receptive
    field; `sizes`: numbers of frames of the first parts, the last of which is repeated."""
    time_1T = np.arange(int(ends[:, -1].max()))[None]
    return compute_chunks(
        lambda part_1T, _: runtime.decode(states, ends, part_1T[0]), [time_1T], None, receptive_field, sizes, axis=1
    )


Computing = Callable[[NDArray[Any], Ints], Floats]
"""Function from frames and the number of real frames per row (B,) to an output with time last: a runtime's `vocode` or
`decode`."""


def compute_chunks(
    compute: Computing,
    parts: Iterable[NDArray[Any]],
    lengths: Ints | None,
    receptive_field: int,
    sizes: Sequence[int],
    *,
    axis: int = 2,
    first_after: int | None = None,
) -> Iterator[Floats]:
    """Yield the output of `compute` (B, ..., T * hop) in parts (B, ..., size * hop), each computed as soon as the
    frames that it depends on are available.

    `parts`: frames along `axis`, such as mels (B, M, any) or codes (B, any, G); `lengths`: number of frames per row
    (B,), None means all; `sizes`: as in `decode_chunks`; `first_after`: number of frames that must follow the first
    part before it is computed; fewer than `receptive_field` is sooner but changes the part slightly.
    """
    coming, after = iter(parts), receptive_field if first_after is None else first_after
    window, start = next(coming, None), 0
    if window is None:
        return
    first = number = 0
    while True:
        last, before = first + sizes[min(number, len(sizes) - 1)], max(0, first - receptive_field)
        window, start = _slice(window, axis, before - start, None), before
        while start + window.shape[axis] < last + after and (part := next(coming, None)) is not None:
            window = np.concatenate([window, part], axis=axis)
        end = min(start + window.shape[axis], last + after)
        last = min(last, end)
        if last <= first:
            return
        frames = np.ascontiguousarray(_slice(window, axis, 0, end - start))
        real = np.full(len(frames), end - start) if lengths is None else np.clip(lengths - start, 0, end - start)
        computed = compute(frames, real)
        hop = computed.shape[-1] // (end - start)
        yield computed[..., (first - start) * hop : (last - start) * hop]
        first, number, after = last, number + 1, receptive_field


def _slice(values: NDArray[Any], axis: int, first: int, last: int | None) -> NDArray[Any]:
    return values[(slice(None),) * axis + (slice(first, last),)]
