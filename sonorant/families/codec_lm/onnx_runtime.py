"""The graphs of the family codec_lm under ONNX Runtime. The step graph keeps nothing: its caches are inputs, bound once
to buffers here, and each step's new keys and values are written into them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from sonorant.arrays import Floats, Ints
from sonorant.decoding.advance import advance, complete
from sonorant.decoding.settings import DecodingDescription
from sonorant.decoding.state import Rules, State, draws, penalises
from sonorant.runtime.onnx import CPU, ON_CUDA, Providers, check_cuda, open_session

SLOTS = 64
"""Buffers hold a multiple of so many slots and grow by as many: attention takes time for each slot, filled or not."""
EMPTY = -1
"""The position of a slot that holds nothing."""


class OnnxTokenRuntime:
    """A session a graph; see `sonorant.runtime.runtimes.TokenRuntime`. Any number of threads may use it."""

    providers: Providers = (CPU,)

    def __init__(
        self, graphs: Mapping[str, Path], decoding: DecodingDescription, *, threads: int | None = None
    ) -> None:
        """Load the files of the family's graphs. `threads`: threads inside an operator, None = one a physical core."""
        self._encoder, self._prefill, self._step, self._vocoder = (
            open_session(graphs[name], threads, self.providers) for name in ("encoder", "prefill", "step", "vocoder")
        )
        self._decoder = open_session(graphs["decoder"], threads, self.providers) if "decoder" in graphs else None
        self._given = self._vocoder.get_inputs()[0].name
        self._decoding = decoding

    def encode(self, tokens: Ints, lengths: Ints, speaker: Ints) -> Floats:
        states: Floats = self._encoder.run(["states"], {"tokens": tokens, "lengths": lengths, "speaker": speaker})[0]
        return states

    def stepper(self) -> OnnxStepper:
        """As `TokenRuntime.stepper`; its buffers come with its first batch."""
        return OnnxStepper(self._prefill, self._step, self._decoding)

    def decode(self, codes: Ints, lengths: Ints) -> Floats:
        assert self._decoder is not None  # or the voice has no source
        frames: Floats = self._decoder.run(["frames"], {"codes": codes, "lengths": lengths})[0]
        return frames

    def vocode(self, frames: NDArray[Any], lengths: Ints) -> Floats:
        samples: Floats = self._vocoder.run(["samples"], {self._given: frames, "lengths": lengths})[0]
        return samples


class OnnxTokenCudaRuntime(OnnxTokenRuntime):
    """The same on an NVIDIA GPU. The caches stay in host memory, where a step's keys can be written in place, and go to
    the GPU with each step; `torch-cuda-graphs` keeps them there."""

    providers = ON_CUDA

    def __init__(
        self, graphs: Mapping[str, Path], decoding: DecodingDescription, *, threads: int | None = None
    ) -> None:
        """As `OnnxTokenRuntime`. Raises SonorantError if the installed package has no CUDA, or CUDA does not start."""
        check_cuda()
        super().__init__(graphs, decoding, threads=threads)


class OnnxStepper:
    """Decoding of one batch at a time; see `sonorant.decoding.session.Stepper`. For one thread at a time."""

    def __init__(
        self, prefill: onnxruntime.InferenceSession, step: onnxruntime.InferenceSession, decoding: DecodingDescription
    ) -> None:
        """`prefill` and `step` may be shared with other steppers."""
        self._prefill, self._step, self._decoding = prefill, step, decoding

    def begin(
        self, states_BNC: Floats, lengths_B: Ints, prompt_BPG: Ints, prompt_lengths_B: Ints, rules: Rules
    ) -> None:
        """As `Stepper.begin`; room is made when it is needed."""
        self._states, self._rules = states_BNC, rules
        self._sampled, self._penalised = draws(rules), penalises(rules)
        inputs = {"states": states_BNC, "lengths": lengths_B, "prompt": prompt_BPG, "prompt_lengths": prompt_lengths_B}
        names = [*cache_names(self._decoding.layers), "position"]
        *caches, position_BS = self._prefill.run(names, inputs)
        self._used = position_BS.shape[1]
        slots = -(-(self._used + 1) // SLOTS) * SLOTS
        self._io = StepBuffers(self._step, self._decoding, states_BNC.shape[0], states_BNC.shape[2], slots)
        self._io.fill(np.stack(caches[0::2]), np.stack(caches[1::2]), position_BS)

    def run(self, state: State, steps: int) -> State:
        """As `Stepper.run`; stops where all rows are complete."""
        rows_B = np.arange(len(state.ended_B))
        for _ in range(steps):
            if state.ended_B.min() >= 0 and complete(state, np).all():
                break
            if self._used == self._io.slots:
                self._io = self._io.grown(SLOTS)
            io = self._io
            io.codes[...], io.age[...], io.position[...] = state.codes_BG, state.age_B, state.position_B
            io.state[...] = self._states[rows_B, state.pointer_B]
            io.run()
            io.keep(self._used)
            self._used += 1
            state = advance(
                state, self._rules, io.logits, io.advance, np, sampled=self._sampled, penalised=self._penalised
            )
        return state


class StepBuffers:
    """The step graph's inputs and outputs in numpy arrays that stay where they are, bound once."""

    def __init__(
        self,
        session: onnxruntime.InferenceSession,
        decoding: DecodingDescription,
        batch: int,
        channels: int,
        slots: int,
    ) -> None:
        """For `batch` rows, states of `channels` and a cache of `slots` positions, all empty."""
        self._session, self._decoding, self._channels = session, decoding, channels
        layers, heads, width, codebooks = decoding.layers, decoding.heads, decoding.head_width, decoding.codebooks
        self.slots = slots
        self.codes = np.zeros((batch, codebooks), np.int64)
        self.state = np.zeros((batch, channels), np.float32)
        self.age = np.zeros(batch, np.int64)
        self.position = np.zeros(batch, np.int64)
        self.logits = np.zeros((batch, codebooks, decoding.codes), np.float32)
        self.advance = np.zeros((batch, decoding.advances), np.float32)
        self._keys = np.zeros((layers, batch, heads, width, slots), np.float32)
        self._values = np.zeros((layers, batch, heads, slots, width), np.float32)
        self._positions = np.full((batch, slots), EMPTY, np.int64)
        self._new_keys = np.zeros((layers, batch, heads, width), np.float32)
        self._new_values = np.zeros((layers, batch, heads, width), np.float32)
        self._binding = session.io_binding()
        for name, array in self._inputs():
            self._binding.bind_input(name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)
        for name, array in self._outputs():
            self._binding.bind_output(name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)

    def run(self) -> None:
        """Compute what the inputs hold."""
        self._session.run_with_iobinding(self._binding)

    def keep(self, slot: int) -> None:
        """Put the keys and values of the step that was run last into the cache."""
        self._keys[..., slot] = self._new_keys
        self._values[:, :, :, slot] = self._new_values
        self._positions[:, slot] = self.position

    def fill(self, keys: Floats, values: Floats, positions: Ints) -> None:
        """Put keys (L, B, H, D, S), values (L, B, H, S, D) and their positions (B, S) into the first slots."""
        slots = positions.shape[1]
        self._keys[..., :slots], self._values[:, :, :, :slots], self._positions[:, :slots] = keys, values, positions

    def grown(self, more: int) -> StepBuffers:
        """Larger ones with the same cache."""
        larger = StepBuffers(self._session, self._decoding, len(self.codes), self._channels, self.slots + more)
        larger.fill(self._keys, self._values, self._positions)
        return larger

    def _inputs(self) -> Iterator[tuple[str, NDArray[Any]]]:
        yield "codes", self.codes
        yield "state", self.state
        yield "age", self.age
        yield "position", self.position
        yield "slot_position", self._positions
        yield from zip(cache_names(self._decoding.layers), _interleaved(self._keys, self._values), strict=True)

    def _outputs(self) -> Iterator[tuple[str, NDArray[Any]]]:
        yield "logits", self.logits
        yield "advance", self.advance
        names = [f"new_{name}" for name in cache_names(self._decoding.layers)]
        yield from zip(names, _interleaved(self._new_keys, self._new_values), strict=True)


def cache_names(layers: int) -> list[str]:
    """Names of the tensors of a cache in the graphs: a key and a value for each layer."""
    return [f"{side}_{layer}" for layer in range(layers) for side in ("key", "value")]


def _interleaved(keys: Floats, values: Floats) -> Iterator[Floats]:
    for key, value in zip(keys, values, strict=True):
        yield key
        yield value
