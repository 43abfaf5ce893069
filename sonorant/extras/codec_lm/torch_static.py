"""Decoding in preallocated buffers of a few shapes. Steps write in place, at slots given by tensors, so each shape is
compiled and recorded once."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sonorant.extras.codec_lm import torch_arrays
from sonorant.extras.codec_lm.decoding.advance import complete
from sonorant.extras.codec_lm.decoding.state import (
    Rules,
    State,
    cut_state,
    draws,
    make_rules,
    padded_rules,
    padded_state,
    penalises,
    start_state,
)
from sonorant.extras.codec_lm.torch_dynamic import DynamicStepper, TorchStep, on_device, on_host
from sonorant.layers.kv_cache import StaticCache, cache_memory
from sonorant.speech.decoding import DecodingDescription

InPlace = Callable[[State, Rules, Tensor, StaticCache], None]
"""A step that overwrites its input state."""
Run = Callable[[], None]
Record = Callable[[Run], Run]
"""Function that records operations on fixed buffers for faster replay; may run them a few times."""


class Shapes(NamedTuple):
    """Sizes of the prepared shapes, in ascending order."""

    batches: tuple[int, ...]
    slots: tuple[int, ...]
    """Numbers of cache positions, which also limit steps and phonemes."""

    def fit(self, rows: int, slots: int) -> tuple[int, int] | None:
        """Return the smallest shape that is large enough, or None."""
        batch = next((size for size in self.batches if size >= rows), None)
        length = next((size for size in self.slots if size >= slots), None)
        return None if batch is None or length is None else (batch, length)

    def plan(self) -> list[tuple[int, int, bool]]:
        """Return every shape to prepare as (rows, slots, drawn), largest first, because the compiler derives sizes from
        the first. `drawn`: whether rows are sampled or penalised."""
        return [
            (rows, slots, drawn) for rows in self.batches[::-1] for slots in self.slots[::-1] for drawn in (False, True)
        ]


class Room:
    def __init__(
        self, step: TorchStep, decoding: DecodingDescription, rows: int, slots: int, memory: list[Tensor]
    ) -> None:
        nobody, config = np.zeros(rows, np.int64), step.model.config
        rules = make_rules(nobody, decoding, decoding.defaults, lambda *sizes: np.zeros((rows, *sizes), np.float32))
        self.rows, self.slots = rows, slots
        self.state = on_device(padded_state(start_state(rules, nobody, decoding), rows, slots), step.device)
        self.rules = on_device(padded_rules(rules, rows, slots), step.device)
        self.states_BNC = torch.zeros(rows, slots, config.channels, device=step.device)
        heads = config.heads
        self.cache = StaticCache(memory, batch=rows, heads=heads, slots=slots, width=config.channels // heads)
        self.steps: dict[bool, Run] = {}
        self._mark_sizes()

    def _mark_sizes(self) -> None:
        """Mark the sizes that differ between shapes as dynamic, so that one compiled step serves all. The compiler
        treats an unmarked size as constant, and compiles a batch of one separately."""
        mark, sides = torch._dynamo.mark_dynamic, (*self.cache.keys, *self.cache.values)
        if self.rows > 1:
            for tensor in (*self.rules, *self.state, self.states_BNC, *sides, self.cache.positions):
                mark(tensor, 0)
        sized = self.rules.noise_BSG, self.state.grid_BSG, self.state.pointers_BS, self.states_BNC, self.cache.positions
        for tensor in sized:
            mark(tensor, 1)
        for tensor in sides:
            mark(tensor, 2)

    def clear(self) -> None:
        self.cache.clear()
        for tensor in (*self.state, *self.rules, self.states_BNC):
            tensor.zero_()


class Rooms:
    """Buffers of all shapes in the same memory, for one stepper and one batch at a time."""

    def __init__(
        self,
        step: TorchStep,
        decoding: DecodingDescription,
        shapes: Shapes,
        functions: Mapping[bool, InPlace],
        record: Record,
    ) -> None:
        """`functions`: `in_place(step, drawn)` for both values of `drawn`, whether rows are sampled or penalised;
        `record` is applied to each shape's step before its first batch."""
        self.step, self.shapes = step, shapes
        self._decoding, self._functions, self._record = decoding, functions, record
        config = step.model.config
        size = shapes.batches[-1] * shapes.slots[-1] * config.channels
        self._memory = cache_memory(config.layers, size, step.half or torch.float32, step.device)
        self._rooms: dict[tuple[int, int], Room] = {}

    @torch.no_grad()
    def prepare(self, rows: int, slots: int, drawn: bool) -> Room:
        """Return the buffers of a shape with their step. The first use compiles and records the step, and clears the
        buffers."""
        if (rows, slots) not in self._rooms:
            self._rooms[rows, slots] = Room(self.step, self._decoding, rows, slots, self._memory)
        room = self._rooms[rows, slots]
        if drawn not in room.steps:
            function = self._functions[drawn]
            room.clear()
            run = self._record(lambda: function(room.state, room.rules, room.states_BNC, room.cache))
            room.clear()
            run()
            room.steps[drawn] = run
        return room


class StaticStepper:
    """A `sonorant.extras.codec_lm.decoding.session.Stepper` with preallocated buffers."""

    def __init__(self, rooms: Rooms, count: Callable[[bool], None]) -> None:
        """`count` is called for each batch with True if the batch fits a shape. Other batches are decoded by
        `DynamicStepper`."""
        self.rooms, self._count = rooms, count
        self._free = DynamicStepper(rooms.step)
        self._room: Room | None = None

    @torch.no_grad()
    def begin(
        self,
        states_BNC: NDArray[Any],
        lengths_B: NDArray[Any],
        prompt_BPG: NDArray[Any],
        prompt_lengths_B: NDArray[Any],
        rules: Rules,
    ) -> None:
        step, (wanted, phonemes), steps = self.rooms.step, states_BNC.shape[:2], rules.noise_BSG.shape[1]
        shape = self.rooms.shapes.fit(wanted, max(phonemes, steps + 1 + prompt_BPG.shape[1]))
        self._count(shape is not None)
        self._room = None
        if shape is None:
            self._free.begin(states_BNC, lengths_B, prompt_BPG, prompt_lengths_B, rules)
            return
        rows, slots = shape
        drawn = draws(rules) or penalises(rules)
        self._room = room = self.rooms.prepare(rows, slots, drawn)
        self._run = room.steps[drawn]
        room.clear()
        room.states_BNC[:wanted, :phonemes].copy_(torch.from_numpy(states_BNC))
        _fill(room.rules, padded_rules(rules, rows, slots))
        edge = (
            np.pad(array, [(0, rows - wanted)] + [(0, 0)] * (array.ndim - 1), mode="edge")
            for array in (lengths_B, prompt_BPG, prompt_lengths_B)
        )
        lengths, prompt, prompt_lengths = (torch.tensor(array, device=step.device) for array in edge)
        step.prefill((room.states_BNC[:, :phonemes], lengths, prompt, prompt_lengths), room.cache)
        self._given: State | None = None
        self._wanted = wanted, steps

    @torch.no_grad()
    def run(self, state: State, steps: int) -> State:
        room = self._room
        if room is None:
            return self._free.run(state, steps)
        if state is not self._given:
            _fill(room.state, padded_state(state, room.rows, room.slots))
        for _ in range(steps):
            self._run()
            if self.rooms.step.device.type == "cpu" and bool(complete(room.state, torch_arrays).all()):
                break
        self._given = cut_state(on_host(room.state), *self._wanted)
        return self._given


def _fill(room: State | Rules, batch: State | Rules) -> None:
    for place, field in zip(room, batch, strict=True):
        place.copy_(torch.tensor(field))


def in_place(step: TorchStep, drawn: bool) -> InPlace:

    def run(state: State, rules: Rules, states_BNC: Tensor, cache: StaticCache) -> None:
        for place, value in zip(state, step(state, rules, states_BNC, cache, drawn=drawn), strict=True):
            place.copy_(value)

    return run
