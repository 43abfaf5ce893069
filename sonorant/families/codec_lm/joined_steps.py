"""Steps of a language model for all who decode with it at the same time, in rows of one call: continuous batching.

A step reads all weights for however few rows, so four rows take little longer than one. Whoever asks for steps has them
computed for everybody who is at work (Yu et al. 2022, Orca, section 3.1: batches are formed anew for each step), whose
own turn then finds them made. Rows come and go between any two steps, each with a position, rules and noise of its own,
and a row's codes do not depend on who is beside it: ONNX Runtime's products give a row the same bits in any batch."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnxruntime

from sonorant.arrays import Floats, Ints
from sonorant.decoding.advance import advance, complete
from sonorant.decoding.settings import DecodingDescription
from sonorant.decoding.state import Rules, State, draws, joined_rules, joined_states, one_row, penalises, row_of
from sonorant.families.codec_lm.step_buffers import SLOTS, Cached, StepBuffers, cache_names

AHEAD = 32
"""Steps that a row is computed beyond what was asked of it, where others' steps are computed anyway."""


@dataclass(eq=False)
class Row:
    """One text that is being decoded."""

    states_NC: Floats
    rules: Rules
    """Of a batch of one."""
    cached: Cached
    """Its cache while it is not at work."""
    used: int
    """Filled slots of it."""
    state: State | None = None
    """Of a batch of one; while it is at work its state is among those of `JoinedSteps`."""
    asked: int = 0
    """Steps that somebody waits for, from the beginning."""
    made: int = 0
    over: bool = False
    """Whether its codes are complete."""

    def note(self, state: State) -> None:
        """Go on from a state of a batch of one."""
        self.state = state
        self.made, self.over = int(state.step_B[0]), bool(complete(state, np)[0])


class JoinedSteps:
    """The rows of all steppers of a runtime, for any number of threads."""

    def __init__(self, step: onnxruntime.InferenceSession, decoding: DecodingDescription) -> None:
        self._step, self._decoding = step, decoding
        self._lock = threading.Lock()
        self._rows: list[weakref.ref[Row]] = []
        """Rows that a stepper still holds."""
        self._at_work: list[weakref.ref[Row]] = []
        """Those that the last step was computed for, in the order of the buffers."""
        self._buffers: StepBuffers | None = None
        self._state: State | None = None
        """Of the rows at work; None = theirs are separate."""

    def add(self, rows: Sequence[Row]) -> None:
        """Rows that will ask for steps, and leave when their stepper drops them."""
        with self._lock:
            self._rows = [ref for ref in self._rows if ref()] + [weakref.ref(row) for row in rows]

    def run(self, rows: Sequence[Row], states: Sequence[State | None], asked: int) -> State:
        """Compute until each row is over or has made `asked` steps; the state of all of them, perhaps ahead of that.
        `states`: where rows go on from, None = where they are."""
        with self._lock:
            for row, state in zip(rows, states, strict=True):
                row.asked = asked
                if state is not None:
                    self._separate()
                    row.note(state)
            while any(not row.over and row.made < asked for row in rows):
                self._make_step()
            found = joined_states([self._state_of(row) for row in rows])
            if not self._wanting(ahead=False):
                self._arrange([])
            return found

    def _wanting(self, *, ahead: bool) -> list[Row]:
        """Rows whose codes are not complete; `ahead`: without those that are far ahead of what was asked."""
        rows = (row for ref in self._rows if (row := ref()) and row.state is not None and not row.over)
        return [row for row in rows if not ahead or row.made < row.asked + AHEAD]

    def _make_step(self) -> None:
        rows = self._wanting(ahead=True)
        there = [ref() for ref in self._at_work]
        if self._state is None or len(rows) != len(there) or set(rows) != set(there):
            rows = self._arrange(rows)
        else:
            rows = [row for row in there if row]
        state, slots_B = self._state, np.array([row.used for row in rows])
        assert state is not None and self._buffers is not None
        if slots_B.max() == self._buffers.slots:
            self._buffers = self._buffers.grown(self._buffers.rows, self._buffers.slots + SLOTS)
        buffers, count = self._buffers, len(rows)
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
        for row, over in zip(rows, complete(self._state, np), strict=True):
            row.made, row.used, row.over = row.made + 1, row.used + 1, bool(over)

    def _arrange(self, rows: Sequence[Row]) -> list[Row]:
        """Put these rows to work and no others; they are given in the order of the buffers."""
        self._separate()
        places = self._places()
        order: list[Row | None] = [None] * len(rows)
        waiting = [row for row in rows if row not in places]
        for row, place in places.items():
            if row in rows and place < len(rows):
                order[place] = row
                continue
            assert self._buffers is not None
            row.cached = self._buffers.cached(place, row.used)
            if row in rows:
                waiting.append(row)
        self._make_room(rows)
        arranged = [row or waiting.pop() for row in order]
        for place, row in enumerate(arranged):
            if order[place] is None:
                assert self._buffers is not None
                self._buffers.fill(row.cached, place)
        self._at_work = [weakref.ref(row) for row in arranged]
        if arranged:
            self._state = joined_states([row.state for row in arranged if row.state])
            self._rules = joined_rules([row.rules for row in arranged])
            self._sampled, self._penalised = draws(self._rules), penalises(self._rules)
        return arranged

    def _make_room(self, rows: Sequence[Row]) -> None:
        """Buffers for so many rows and one more step of each; none where there are no rows."""
        if not rows:
            self._buffers = None
            return
        slots = -(-(max(row.used for row in rows) + 1) // SLOTS) * SLOTS
        there = self._buffers
        if there is None:
            channels = rows[0].states_NC.shape[1]
            self._buffers = StepBuffers(self._step, self._decoding, len(rows), channels, slots)
        elif len(rows) > there.rows or slots > there.slots:
            self._buffers = there.grown(max(len(rows), there.rows), max(slots, there.slots))

    def _places(self) -> dict[Row, int]:
        """Where rows at work are in the buffers."""
        return {row: place for place, ref in enumerate(self._at_work) if (row := ref())}

    def _separate(self) -> None:
        """Give every row at work its state back."""
        if self._state is not None:
            for row in self._places():
                row.state = self._state_of(row)
            self._state = None

    def _state_of(self, row: Row) -> State:
        place = self._places().get(row)
        found = row.state if self._state is None or place is None else one_row(self._state, place, row.rules)
        assert found is not None
        return found


class JoinedStepper:
    """A `sonorant.decoding.session.Stepper` whose steps are computed together with those of others."""

    def __init__(
        self, joined: JoinedSteps, prefill: onnxruntime.InferenceSession, decoding: DecodingDescription
    ) -> None:
        self._joined, self._prefill, self._decoding = joined, prefill, decoding

    def begin(
        self, states_BNC: Floats, lengths_B: Ints, prompt_BPG: Ints, prompt_lengths_B: Ints, rules: Rules
    ) -> None:
        """As `Stepper.begin`; the batch before, if there was one, is forgotten."""
        inputs = {"states": states_BNC, "lengths": lengths_B, "prompt": prompt_BPG, "prompt_lengths": prompt_lengths_B}
        names = [*cache_names(self._decoding.layers), "position"]
        *caches, position_BS = self._prefill.run(names, inputs)
        keys, values = np.stack(caches[0::2]), np.stack(caches[1::2])
        used = position_BS.shape[1]
        self._given: State | None = None
        self._rows = [
            Row(states_BNC[row], row_of(rules, row), (keys[:, one], values[:, one], position_BS[one]), used)
            for row in range(len(states_BNC))
            for one in [slice(row, row + 1)]
        ]
        self._joined.add(self._rows)

    def run(self, state: State, steps: int) -> State:
        """As `Stepper.run`."""
        known = state is self._given
        states = [None if known else row_of(state, row) for row in range(len(self._rows))]
        unfinished_B = ~complete(state, np)
        made = int(state.step_B[unfinished_B].min(initial=state.step_B.max(initial=0)))
        self._given = self._joined.run(self._rows, states, made + steps)
        return self._given
