"""Pad requests to a few shapes that are compiled or recorded in advance. Padding does not change results, except that
`decode` pads a part with the frames that follow it instead of silence."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sonorant.audio.arrays import Floats, Ints
from sonorant.speech.bundle import Lengths
from sonorant.speech.runtimes import Runtime

MULTIPLE = 8
"""Sizes are multiples of this number, because matrix units process eight rows at a time."""
SMALLEST = 16
"""Minimum size; smaller sizes save no time."""


@dataclass(frozen=True, kw_only=True)
class Buckets:
    """Sizes to which requests are padded, in ascending order."""

    tokens: tuple[int, ...]
    """Numbers of tokens for the encoder; the decoder always uses the largest."""
    frames: tuple[int, ...]
    """Numbers of frames for the decoder and the vocoder."""
    batches: tuple[int, ...] = (1,)

    @classmethod
    def of(cls, lengths: Lengths, batches: tuple[int, ...] = (1,)) -> Buckets:
        """Choose sizes from the corpus lengths: the longest, the 95th percentile, the median, and repeated halves of
        the median down to the shortest."""
        return cls(tokens=_sizes(lengths.tokens), frames=_sizes(lengths.frames), batches=tuple(sorted(batches)))

    def plan(self) -> list[tuple[str, tuple[int, ...]]]:
        """Return all (graph, shape) pairs; a shape is (rows, tokens), (rows, tokens, frames) or (rows, frames)."""
        shapes: list[tuple[str, tuple[int, ...]]] = []
        for rows in self.batches:
            shapes += [("encoder", (rows, tokens)) for tokens in self.tokens]
            shapes += [("decoder", (rows, self.tokens[-1], frames)) for frames in self.frames]
            shapes += [("vocoder", (rows, frames)) for frames in self.frames]
        return shapes


@dataclass(frozen=True, kw_only=True)
class Counters:
    """Counts of requests and shapes since loading or `warm_up`."""

    hits: int
    """Number of requests served from a bucket."""
    misses: int
    """Number of requests that fit no bucket."""
    prepared: int
    """Number of shapes compiled or recorded since loading."""
    late: int
    """Number of shapes prepared while a request waited."""


class Bucketed:
    """A runtime for any shape, built on a runtime for fixed shapes. Thread-safe."""

    def __init__(
        self,
        fixed: Runtime,
        free: Runtime,
        buckets: Buckets,
        prepared: Callable[[], int],
        rows: int,
    ) -> None:
        """`fixed` prepares each bucket on first use; `free` serves requests that fit no bucket; `prepared` returns the
        number of shapes that `fixed` has prepared; `rows` is the number of rows in a vocoder frame."""
        self.buckets = buckets
        self._rows = rows
        self._prepared_so_far = prepared
        self._fixed = fixed
        self._free = free
        self._hits = self._misses = self._warmed = 0
        self._counting = threading.Lock()
        self._preparing = threading.Lock()
        self._ready: set[tuple[str, tuple[int, ...]]] = set()

    def encode(
        self, tokens: Ints, lengths: Ints, speaker: Ints, speed: Floats, pitch: Floats, energy: Floats
    ) -> tuple[Floats, Ints]:
        count, width = tokens.shape[:2]
        shape = _fit((count, self.buckets.batches), (width, self.buckets.tokens))
        if not self._counted(shape):
            return self._free.encode(tokens, lengths, speaker, speed, pitch, energy)
        rows, columns = shape
        padded = _pad(tokens, rows, columns), _pad(lengths, rows), _pad(speaker, rows), _pad(speed, rows, fill=1)
        inputs = *padded, _pad(pitch, rows), _pad(energy, rows)
        states, ends = self._prepared("encoder", shape, lambda: self._fixed.encode(*inputs))
        return states[:count, :width], ends[:count, :width]

    def decode(self, states: Floats, ends: Ints, time: Ints) -> Floats:
        count, width = ends.shape
        shape = _fit((count, self.buckets.batches), (width, self.buckets.tokens[-1:]), (len(time), self.buckets.frames))
        if not self._counted(shape):
            return self._free.decode(states, ends, time)
        rows, columns, frames = shape
        longer = np.concatenate([ends, np.repeat(ends[:, -1:], columns - width, axis=1)], axis=1)
        padded = _pad(states, rows, columns), _pad(longer, rows), np.arange(time[0], time[0] + frames)
        return self._prepared("decoder", shape, lambda: self._fixed.decode(*padded))[:count, :, : len(time)]

    def vocode(self, mel: Floats, lengths: Ints) -> Floats:
        count, _, width = mel.shape
        shape = _fit((count, self.buckets.batches), (width, self.buckets.frames))
        if not self._counted(shape):
            return self._free.vocode(mel, lengths)
        rows, frames = shape
        padded = _pad(mel, rows, mel.shape[1], frames), _pad(lengths, rows)
        samples = self._prepared("vocoder", shape, lambda: self._fixed.vocode(*padded))
        return samples[:count, : samples.shape[1] // frames * width]

    def warm_up(self, progress: bool = True) -> float:
        """Prepare all buckets and return the time taken in seconds. `progress`: whether to show a progress bar on
        stderr."""
        from tqdm import tqdm  # imported only for warming up

        began = perf_counter()
        states: dict[int, Floats] = {}
        steps = tqdm(self.buckets.plan(), desc="warm-up", unit="shape", disable=not progress)
        for graph, shape in steps:
            steps.set_postfix_str(f"{graph} {'x'.join(map(str, shape))}")
            rows = shape[0]
            if graph == "encoder":
                tokens, zeros = np.zeros((*shape, 3), np.int64), np.zeros(rows, np.float32)
                ids = np.full(rows, shape[1]), np.zeros(rows, np.int64)
                states[rows], _ = self.encode(tokens, *ids, zeros + 1, zeros, zeros)
            elif graph == "decoder":
                ends = np.repeat(np.arange(1, shape[1] + 1)[None], rows, axis=0)
                self.decode(states[rows], ends, np.arange(shape[2]))
            else:
                self.vocode(np.zeros((rows, self._rows, shape[1]), np.float32), np.full(rows, shape[1]))
        with self._counting:
            self._hits = self._misses = 0
            self._warmed = self._prepared_so_far()
        return perf_counter() - began

    def counters(self) -> Counters:
        with self._counting:
            prepared = self._prepared_so_far()
            return Counters(hits=self._hits, misses=self._misses, prepared=prepared, late=prepared - self._warmed)

    def _counted(self, shape: tuple[int, ...]) -> bool:
        with self._counting:
            self._hits += bool(shape)
            self._misses += not shape
        return bool(shape)

    def _prepared(self, graph: str, shape: tuple[int, ...], run: Callable[[], Any]) -> Any:
        if (graph, shape) in self._ready:
            return run()
        with self._preparing:
            result = run()
            self._ready.add((graph, shape))
            return result


def _sizes(lengths: tuple[int, int, int, int]) -> tuple[int, ...]:
    shortest, median, p95, longest = lengths
    sizes = [longest, p95, median]
    while sizes[-1] // 2 >= max(shortest, SMALLEST):
        sizes.append(sizes[-1] // 2)
    return tuple(sorted({-(-size // MULTIPLE) * MULTIPLE for size in sizes}))


def _fit(*wanted: tuple[int, tuple[int, ...]]) -> tuple[int, ...]:
    found = tuple(min((size for size in sizes if size >= least), default=0) for least, sizes in wanted)
    return found if all(found) else ()


def _pad(values: NDArray[Any], *shape: int, fill: float = 0) -> NDArray[Any]:
    return np.pad(
        values,
        [(0, wanted - there) for wanted, there in zip(shape, values.shape, strict=False)]
        + [(0, 0)] * (values.ndim - len(shape)),
        constant_values=fill,
    )
