"""Decoding in preallocated buffers of a few shapes. Steps write in place, at slots given by tensors. No Python number
changes between steps, so each shape is compiled and recorded once."""

import threading
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sonorant.extras.codec_lm import torch_arrays
from sonorant.extras.codec_lm.decoding.advance import complete
from sonorant.extras.codec_lm.decoding.session import Stepper
from sonorant.extras.codec_lm.decoding.state import (
    LONGEST_PERIOD,
    Rules,
    State,
    cut_state,
    draws,
    padded_rules,
    padded_state,
    penalises,
)
from sonorant.extras.codec_lm.torch_dynamic import Fed, TorchStep, state_of, to_device
from sonorant.layers.kv_cache import StaticCache, cache_memory

InPlace = Callable[[State, Rules, Tensor, StaticCache], None]
"""A step that overwrites the state it is given."""
Run = Callable[[], None]
Record = Callable[[Run], Run]
"""Records work on fixed buffers for faster replay; may run it a few times to do so."""


class Shapes(NamedTuple):
    """Prepared shapes, each axis in rising order."""

    batches: tuple[int, ...]
    slots: tuple[int, ...]
    """Cache positions; also the most steps and phonemes."""

    def fit(self, rows: int, slots: int) -> tuple[int, int] | None:
        """The smallest shape with enough room; None if there is none."""
        batch = next((size for size in self.batches if size >= rows), None)
        length = next((size for size in self.slots if size >= slots), None)
        return None if batch is None or length is None else (batch, length)

    def plan(self) -> list[tuple[int, int, bool]]:
        """All (rows, slots, drawn), the largest first: the compiler derives sizes from the first."""
        return [
            (rows, slots, drawn) for rows in self.batches[::-1] for slots in self.slots[::-1] for drawn in (False, True)
        ]


class Tally:
    """Thread-safe counts of batches that fitted a shape and that did not."""

    def __init__(self) -> None:
        self.hits = self.misses = 0
        self._lock = threading.Lock()

    def count(self, hit: bool) -> None:
        with self._lock:
            self.hits += hit
            self.misses += not hit

    def clear(self) -> None:
        with self._lock:
            self.hits = self.misses = 0


class Room:
    """The buffers of one shape."""

    def __init__(self, step: TorchStep, rows: int, slots: int, memory: list[Tensor]) -> None:
        model, device = step.model, step.device
        codebooks, codes = model.codebooks, model.codes

        def zeros(*shape: int, dtype: torch.dtype = torch.int64) -> Tensor:
            return torch.zeros(rows, *shape, dtype=dtype, device=device)

        self.rows, self.slots = rows, slots
        self.states_BNC = zeros(slots, model.config.channels, dtype=torch.float32)
        self.rules = Rules(
            noise_BSG=zeros(slots, codebooks + 1, dtype=torch.float32),
            temperature_B=zeros(dtype=torch.float32),
            top_k_B=zeros(),
            top_p_B=zeros(dtype=torch.float32),
            penalty_B=zeros(dtype=torch.float32),
            recent_B=zeros(),
            median_B=zeros(dtype=torch.bool),
            phonemes_B=zeros(),
            budget_B=zeros(),
            longest_phoneme_B=zeros(),
            longest_silence_B=zeros(),
            longest_repeat_B=zeros(),
            silence_BG=zeros(codebooks),
        )
        self.state = State(
            step_B=zeros(),
            codes_BG=zeros(codebooks),
            pointer_B=zeros(),
            age_B=zeros(),
            log_survival_B=zeros(dtype=torch.float32),
            position_B=zeros(),
            ended_B=zeros(),
            finish_reason_B=zeros(),
            log_probability_B=zeros(dtype=torch.float32),
            silent_B=zeros(),
            recent_BRG=zeros(LONGEST_PERIOD, codebooks),
            repeats_BR=zeros(LONGEST_PERIOD),
            used_BGK=zeros(codebooks, codes),
            grid_BSG=zeros(slots, codebooks),
            pointers_BS=zeros(slots),
        )
        heads = model.config.heads
        self.cache = StaticCache(memory, batch=rows, heads=heads, slots=slots, width=model.config.channels // heads)
        self.steps: dict[bool, Run] = {}
        """Prepared step by whether rows draw."""

    def sizes_vary(self) -> None:
        """Mark the sizes that differ between rooms as dynamic, so that one compiled step serves all. torch compiles a
        batch of one separately."""
        mark = torch._dynamo.mark_dynamic
        # The compiler treats an unmarked size as constant.
        for tensor in (
            *self.rules,
            *self.state,
            self.states_BNC,
            *self.cache.keys,
            *self.cache.values,
            self.cache.positions,
        ):
            if self.rows > 1:
                mark(tensor, 0)
        sized = self.rules.noise_BSG, self.state.grid_BSG, self.state.pointers_BS, self.states_BNC, self.cache.positions
        for tensor in sized:
            mark(tensor, 1)
        for tensor in (*self.cache.keys, *self.cache.values):
            mark(tensor, 2)

    def clear(self) -> None:
        self.cache.clear()
        for tensor in (*self.state, *self.rules, self.states_BNC):
            tensor.zero_()


class Rooms:
    """Rooms of all shapes in the same memory: for one stepper, one batch at a time."""

    def __init__(self, step: TorchStep, shapes: Shapes) -> None:
        config = step.model.config
        size = shapes.batches[-1] * shapes.slots[-1] * config.channels
        self._memory = cache_memory(config.layers, size, step.half or torch.float32, step.device)
        self._rooms: dict[tuple[int, int], Room] = {}
        self._step = step

    def room(self, rows: int, slots: int) -> Room:
        """The room of a shape; its buffers are allocated once."""
        if (rows, slots) not in self._rooms:
            self._rooms[rows, slots] = room = Room(self._step, rows, slots, self._memory)
            room.sizes_vary()
        return self._rooms[rows, slots]


class StaticStepper:
    """A `sonorant.extras.codec_lm.decoding.session.Stepper` with rooms of its own."""

    def __init__(
        self,
        step: TorchStep,
        shapes: Shapes,
        rooms: Rooms,
        functions: Mapping[bool, InPlace],
        record: Record,
        free: Stepper,
        tally: Tally,
    ) -> None:
        """`rooms`: used by this stepper alone; `functions`: `in_place(step, drawn)` by whether rows draw or are
        penalised, compiled or not; `record`: applied to each room's step before its first batch; `free`: decodes
        batches that fit no shape; `tally`: counts batches."""
        self._step, self._shapes, self._rooms = step, shapes, rooms
        self._functions, self._record, self._free, self._tally = functions, record, free, tally
        self._room: Room | None = None

    @torch.no_grad()
    def prepare(self, rows: int, slots: int, drawn: bool) -> Run:
        """A room's step, compiled and recorded on first use, which empties the room."""
        room = self._rooms.room(rows, slots)
        if drawn not in room.steps:
            function = self._functions[drawn]
            room.clear()
            run = self._record(lambda: function(room.state, room.rules, room.states_BNC, room.cache))
            room.clear()
            run()
            room.steps[drawn] = run
        return room.steps[drawn]

    @torch.no_grad()
    def begin(
        self,
        states_BNC: NDArray[Any],
        lengths_B: NDArray[Any],
        prompt_BPG: NDArray[Any],
        prompt_lengths_B: NDArray[Any],
        rules: Rules,
    ) -> None:
        fed = (states_BNC, lengths_B, prompt_BPG, prompt_lengths_B)
        wanted, phonemes = states_BNC.shape[:2]
        steps = rules.noise_BSG.shape[1]
        shape = self._shapes.fit(wanted, max(phonemes, steps + 1 + prompt_BPG.shape[1]))
        self._tally.count(shape is not None)
        self._room = None
        if shape is None:
            self._free.begin(*fed, rules)
            return
        rows, slots = shape
        self._run = self.prepare(rows, slots, draws(rules) or penalises(rules))
        self._room = room = self._rooms.room(rows, slots)
        room.clear()
        room.states_BNC[:wanted, :phonemes].copy_(torch.from_numpy(states_BNC))
        for place, field in zip(room.rules, padded_rules(rules, rows, slots), strict=True):
            place.copy_(to_device(field, self._step.device))
        edge = [np.pad(array, [(0, rows - wanted)] + [(0, 0)] * (array.ndim - 1), mode="edge") for array in fed[1:]]
        tensors = (to_device(array, self._step.device) for array in edge)
        self._step.prefill(Fed(room.states_BNC[:, :phonemes], *tensors), room.cache)
        self._given: State | None = None
        self._wanted = wanted, steps

    @torch.no_grad()
    def run(self, state: State, steps: int) -> State:
        """As `Stepper.run`; on a GPU only the last step is waited for."""
        room = self._room
        if room is None:
            return self._free.run(state, steps)
        if state is not self._given:
            for place, field in zip(room.state, padded_state(state, room.rows, room.slots), strict=True):
                place.copy_(to_device(field, self._step.device))
        for _ in range(steps):
            self._run()
            if self._step.device.type == "cpu" and bool(complete(room.state, torch_arrays).all()):
                break
        self._given = cut_state(state_of(room.state), *self._wanted)
        return self._given


def in_place(step: TorchStep, drawn: bool) -> InPlace:
    """A step that overwrites the state it is given."""

    def run(state: State, rules: Rules, states_BNC: Tensor, cache: StaticCache) -> None:
        for place, value in zip(state, step(state, rules, states_BNC, cache, drawn=drawn), strict=True):
            place.copy_(value)

    return run
