"""Continuous batching (Yu et al. 2022, "Orca"): the next steps of all utterances in a thread are computed as the rows
of one call. A step reads all weights for any number of rows, so four rows take little longer than one. Rows join and
leave between steps, each with a separate position, rules and noise. With ONNX Runtime's CPU kernels, a row's results
had the same bits in any batch."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnxruntime

from sonorant.audio.arrays import Floats, Ints
from sonorant.extras.codec_lm.decoding.advance import advance, complete
from sonorant.extras.codec_lm.decoding.state import (
    Rules,
    State,
    draws,
    joined_rules,
    joined_states,
    one_row,
    penalises,
    row_of,
)
from sonorant.extras.codec_lm.step_buffers import SLOTS, Cached, StepBuffers, cache_names
from sonorant.speech.decoding import DecodingDescription

AHEAD = 32
"""Maximum number of steps by which a row may exceed its stepper's request."""


@dataclass(eq=False)
class Row:
    states_NC: Floats
    rules: Rules
    before: int
    """Number of cache slots filled before the first step."""
    cached: Cached | None
    """Cache of the row; None while it is in the buffers."""
    state: State | None = None
    """State as a batch of one; None before the first run, outdated while the row is active."""
    asked: int = 0
    made: int = 0
    over: bool = False

    def note(self, state: State) -> None:
        self.state = state
        self.made, self.over = int(state.step_B[0]), bool(complete(state, np)[0])

    def go_on_from(self, state: State) -> None:
        """Continue from `state`, a batch of one, and drop cache slots of later steps."""
        self.note(state)
        assert self.cached is not None
        keys, values, positions = self.cached
        used = self.before + self.made
        self.cached = keys[..., :used], values[:, :, :, :used], positions[:, :used]


class JoinedSteps:
    """Holds the rows of every stepper in a thread. The lock covers steppers that are passed to another thread."""

    def __init__(self, step: onnxruntime.InferenceSession, decoding: DecodingDescription) -> None:
        self._step, self._decoding = step, decoding
        self._lock = threading.Lock()
        self._rows: list[weakref.ref[Row]] = []
        self._places: list[weakref.ref[Row] | None] = []
        """Active row in each place of the buffers."""
        self._buffers: StepBuffers | None = None
        self._state: State | None = None
        """State of the active rows; None if each row's `state` is current."""

    def add(self, rows: Sequence[Row]) -> None:
        with self._lock:
            self._rows = [ref for ref in self._rows if ref()] + [weakref.ref(row, self._left) for row in rows]

    def run(self, rows: Sequence[Row], states: Sequence[State | None], asked: int) -> State:
        """Compute steps until each row is complete or has made `asked` steps, and return the rows' states. `states`:
        state from which each row continues; None means its current state."""
        with self._lock:
            told = [row for row, state in zip(rows, states, strict=True) if state is not None]
            if told:
                self._put_to_work([row for row in self._at_work() if row not in told])
            for row, state in zip(rows, states, strict=True):
                row.asked = asked
                if state is not None:
                    row.go_on_from(state)
            while any(not row.over and row.made < asked for row in rows):
                self._make_step()
            found = joined_states([self._state_of(row) for row in rows])
            if not self._unfinished():
                self._put_to_work([])
            return found

    def _left(self, _: weakref.ref[Row]) -> None:
        """Free the buffers if no unfinished row is left. The garbage collector may call this anywhere, even while the
        lock is held."""
        if self._lock.acquire(blocking=False):
            try:
                if not self._unfinished():
                    self._put_to_work([])
            finally:
                self._lock.release()

    def _unfinished(self) -> list[Row]:
        return [row for ref in self._rows if (row := ref()) and row.state is not None and not row.over]

    def _make_step(self) -> None:
        rows = [row for row in self._unfinished() if row.made < row.asked + AHEAD]
        if self._state is None or set(rows) != set(self._at_work()) or len(rows) != len(self._places):
            self._put_to_work(rows)
        rows, state, buffers = self._at_work(), self._state, self._buffers
        assert state is not None and buffers is not None
        slots_B = np.array([row.before for row in rows]) + state.step_B
        if slots_B.max() == buffers.slots:
            self._buffers = buffers = buffers.sized(buffers.rows, buffers.slots + SLOTS)
        count = len(rows)
        buffers.codes[:count], buffers.age[:count] = state.codes_BG, state.age_B
        buffers.position[:count] = state.position_B
        for place, (row, phoneme) in enumerate(zip(rows, state.pointer_B, strict=True)):
            buffers.state[place] = row.states_NC[phoneme]
        buffers.run(count)
        buffers.keep(slots_B)
        self._state = advance(
            state, self._rules, buffers.logits[:count], buffers.advance[:count], np,
            sampled=self._sampled, penalised=self._penalised,
        )  # fmt: skip
        # From here on, an interruption loses nothing: rows are updated from the state.
        over_B = complete(self._state, np)
        for row, made, over in zip(rows, self._state.step_B, over_B, strict=True):
            row.made, row.over = int(made), bool(over)

    def _put_to_work(self, rows: Sequence[Row]) -> None:
        """Make `rows` the active rows. Rows that are already active keep their places."""
        for row in self._at_work():
            row.note(self._state_of(row))
        self._state = None
        places: list[Row | None] = [None] * len(rows)
        for place, ref in enumerate(self._places):
            if ref is None or (held := ref()) is None:
                continue
            if held in rows and place < len(rows):
                places[place] = held
            else:
                assert self._buffers is not None
                held.cached = self._buffers.cached(place, held.before + held.made)
        self._places = [weakref.ref(row) if row else None for row in places]
        self._make_room(rows)
        waiting = [row for row in rows if row not in places]
        for place, there in enumerate(places):
            if there is None:
                row = waiting.pop()
                assert self._buffers is not None and row.cached is not None
                self._buffers.fill(row.cached, place)
                self._places[place], row.cached = weakref.ref(row), None
        if rows:
            rows = self._at_work()
            self._rules = joined_rules([row.rules for row in rows])
            self._sampled, self._penalised = draws(self._rules), penalises(self._rules)
            self._state = joined_states([row.state for row in rows if row.state])

    def _make_room(self, rows: Sequence[Row]) -> None:
        """Resize buffers that are too small for the rows and one more step, or over twice as large as needed."""
        there = self._buffers
        if not rows:
            self._buffers = None
            return
        slots = -(-(max(row.before + row.made for row in rows) + 1) // SLOTS) * SLOTS
        if there is None:
            channels = rows[0].states_NC.shape[1]
            self._buffers = StepBuffers(self._step, self._decoding, len(rows), channels, slots)
        elif not len(rows) <= there.rows <= 2 * len(rows) or not slots <= there.slots <= 2 * slots:
            self._buffers = there.sized(len(rows), slots)

    def _at_work(self) -> list[Row]:
        return [row for ref in self._places if ref and (row := ref())]

    def _state_of(self, row: Row) -> State:
        if self._state is not None:
            for place, ref in enumerate(self._places):
                if ref and ref() is row:
                    return one_row(self._state, place, row.rules)
        assert row.state is not None
        return row.state


class JoinedStepper:
    """A `sonorant.extras.codec_lm.decoding.session.Stepper` that shares steps with others. Not thread-safe."""

    def __init__(
        self, joined: JoinedSteps, prefill: onnxruntime.InferenceSession, decoding: DecodingDescription
    ) -> None:
        self._joined, self._prefill, self._decoding = joined, prefill, decoding
        self._rows: list[Row] = []
        self._given: State | None = None

    def begin(
        self, states_BNC: Floats, lengths_B: Ints, prompt_BPG: Ints, prompt_lengths_B: Ints, rules: Rules
    ) -> None:
        inputs = {"states": states_BNC, "lengths": lengths_B, "prompt": prompt_BPG, "prompt_lengths": prompt_lengths_B}
        names = [*cache_names(self._decoding.layers), "position"]
        *caches, position_BS = self._prefill.run(names, inputs)
        keys, values = np.stack(caches[0::2]), np.stack(caches[1::2])
        before = position_BS.shape[1]
        self._given = None
        self._rows = [
            Row(states_BNC[row], row_of(rules, row), before, (keys[:, one], values[:, one], position_BS[one]))
            for row in range(len(states_BNC))
            for one in [slice(row, row + 1)]
        ]
        self._joined.add(self._rows)

    def run(self, state: State, steps: int) -> State:
        known = state is self._given
        states = [None if known else row_of(state, row) for row in range(len(self._rows))]
        unfinished_B = ~complete(state, np)
        made = int(state.step_B[unfinished_B].min(initial=state.step_B.max(initial=0)))
        self._given = self._joined.run(self._rows, states, made + steps)
        return self._given
