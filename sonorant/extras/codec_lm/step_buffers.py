"""Inputs and outputs of the step graph, which is stateless: its caches are inputs, bound once to numpy arrays, into
which each step's new keys and values are written."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from sonorant.audio.arrays import Floats, Ints
from sonorant.speech.decoding import DecodingDescription

SLOTS = 64
"""Number of slots by which buffers grow. Attention takes time for each slot, filled or not."""
EMPTY = -1
"""Position of an empty slot."""
Cached = tuple[Floats, Floats, Ints]
"""Keys (L, B, H, D, S), values (L, B, H, S, D) and their positions (B, S)."""


class StepBuffers:
    """Arrays for a maximum number of rows; a run computes only the first rows."""

    def __init__(
        self,
        session: onnxruntime.InferenceSession,
        decoding: DecodingDescription,
        rows: int,
        channels: int,
        slots: int,
    ) -> None:
        self._session, self._decoding, self._channels = session, decoding, channels
        layers, heads, width, codebooks = decoding.layers, decoding.heads, decoding.head_width, decoding.codebooks
        self.rows, self.slots = rows, slots
        self.codes = np.zeros((rows, codebooks), np.int64)
        self.state = np.zeros((rows, channels), np.float32)
        self.age = np.zeros(rows, np.int64)
        self.position = np.zeros(rows, np.int64)
        self.logits = np.zeros((rows, codebooks, decoding.codes), np.float32)
        self.advance = np.zeros((rows, decoding.advances), np.float32)
        self._keys = np.zeros((layers, rows, heads, width, slots), np.float32)
        self._values = np.zeros((layers, rows, heads, slots, width), np.float32)
        self._positions = np.full((rows, slots), EMPTY, np.int64)
        self._new_keys = np.zeros((layers, rows, heads, width), np.float32)
        self._new_values = np.zeros((layers, rows, heads, width), np.float32)
        self._inputs: dict[str, NDArray[Any]] = {
            "codes": self.codes,
            "state": self.state,
            "age": self.age,
            "position": self.position,
            "slot_position": self._positions,
            **_by_name(self._keys, self._values),
        }
        self._outputs: dict[str, NDArray[Any]] = {
            "logits": self.logits,
            "advance": self.advance,
            **_by_name(self._new_keys, self._new_values, "new_"),
        }
        self._bindings: dict[int, onnxruntime.IOBinding] = {}

    def run(self, rows: int) -> None:
        if rows not in self._bindings:
            self._bindings[rows] = self._bound(rows)
        self._session.run_with_iobinding(self._bindings[rows])

    def keep(self, slots_B: Ints) -> None:
        """Write the keys and values of the last step into slot `slots_B` (B,) of each row."""
        rows_B = np.arange(len(slots_B))
        # numpy moves indices separated by slices to the front: (B, L, H, D).
        self._keys[:, rows_B, :, :, slots_B] = self._new_keys[:, : len(slots_B)].swapaxes(0, 1)
        self._values[:, rows_B, :, slots_B] = self._new_values[:, : len(slots_B)].swapaxes(0, 1)
        self._positions[rows_B, slots_B] = self.position[: len(slots_B)]

    def fill(self, cached: Cached, first: int = 0) -> None:
        """Write a cache into the first slots of the rows from `first` on, and empty their other slots."""
        keys, values, positions = cached
        rows, slots = slice(first, first + positions.shape[0]), positions.shape[1]
        self._values[:, rows, :, slots:] = 0  # attention weight 0 times an old NaN is NaN
        self._keys[:, rows, :, :, :slots], self._values[:, rows, :, :slots] = keys, values
        self._positions[rows, :slots], self._positions[rows, slots:] = positions, EMPTY

    def cached(self, row: int, slots: int) -> Cached:
        """Return a copy of a row's first `slots`, as a batch of one."""
        one = slice(row, row + 1)
        return (
            self._keys[:, one, :, :, :slots].copy(),
            self._values[:, one, :, :slots].copy(),
            self._positions[one, :slots].copy(),
        )

    def sized(self, rows: int, slots: int) -> StepBuffers:
        other = StepBuffers(self._session, self._decoding, rows, self._channels, slots)
        keys, values = self._keys[:, :rows, :, :, :slots], self._values[:, :rows, :, :slots]
        other.fill((keys, values, self._positions[:rows, :slots]))
        return other

    def _bound(self, rows: int) -> onnxruntime.IOBinding:
        binding = self._session.io_binding()
        for bind, arrays in ((binding.bind_input, self._inputs), (binding.bind_output, self._outputs)):
            for name, array in arrays.items():
                bind(name, "cpu", 0, array.dtype, array[:rows].shape, array.ctypes.data)
        return binding


def cache_names(layers: int) -> list[str]:
    """Return the names of each layer's key and value in the graphs."""
    return [f"{side}_{layer}" for layer in range(layers) for side in ("key", "value")]


def _by_name(keys: Floats, values: Floats, prefix: str = "") -> dict[str, NDArray[Any]]:
    sides = [side for pair in zip(keys, values, strict=True) for side in pair]
    return {f"{prefix}{name}": side for name, side in zip(cache_names(len(keys)), sides, strict=True)}
