"""Tokens of a batch, as many at a time as are asked for. Knows nothing of what runs the model, or of what is done with
a bad end."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from sonorant.decoding.advance import FinishReason, Key, complete, uniform_noise
from sonorant.decoding.settings import DecodingConfig, DecodingDescription
from sonorant.decoding.state import Rules, State, make_rules, start
from sonorant.errors import SonorantError


class Stepper(Protocol):
    """A language model with a cache for one batch at a time; numpy goes in and comes out. `begin` may be called again
    for another batch."""

    def begin(
        self,
        states_BNC: NDArray[np.float32],
        lengths_B: NDArray[np.int64],
        prompt_BPG: NDArray[np.int64],
        prompt_lengths_B: NDArray[np.int64],
        rules: Rules,
    ) -> None:
        """Take a batch: the encoder's states, phonemes of each row, the prompt (P at least 1) and frames of it of each
        row.

        Leaves room for as many steps as `rules.noise_BSG` has (B, S, G + 1).
        """

    def run(self, state: State, steps: int) -> State:
        """Go so many steps on from a state, each `advance(state, rules, logits, hop)`; the state is the one that was
        given last.

        Steppers that see their state without waiting for a device may stop earlier, once all rows are complete.
        """


class Prompt(NamedTuple):
    """Speech that the voice is to go on like, as codes."""

    codes_BPG: NDArray[np.int64]
    """Undelayed, frame by frame (B, P, G)."""
    lengths_B: NDArray[np.int64]
    """Frames of each row."""


class Session:
    """A batch that is being decoded. One thread at a time; the stepper belongs to it until it ends."""

    def __init__(
        self,
        stepper: Stepper,
        states_BNC: NDArray[np.float32],
        lengths_B: NDArray[np.int64],
        description: DecodingDescription,
        config: DecodingConfig,
        keys: Sequence[Key],
        prompt: Prompt | None = None,
    ) -> None:
        """Prefill, no step yet.

        Args:
            stepper: what runs the model.
            states_BNC: what the encoder gave, float32.
            lengths_B: phonemes of each row, `^` and `$` included, int64.
            description: of the voice.
            config: how to decode.
            keys: what each row's noise follows from.
            prompt: for voices that take one.
        """
        if prompt is None:
            prompt = Prompt(
                np.zeros((len(lengths_B), 1, description.codebooks), np.int64), np.zeros(len(lengths_B), np.int64)
            )
        rules = make_rules(lengths_B, description, config, partial(uniform_noise, keys))
        self._state = start(rules, lengths_B, prompt.lengths_B, description)
        self._stepper, self._rules = stepper, rules
        self._given = 0
        if not self._complete:
            stepper.begin(states_BNC, lengths_B, prompt.codes_BPG, prompt.lengths_B, rules)

    def more(self, frames: int) -> NDArray[np.int64]:
        """The next frames' codes (B, f, G): f is `frames`, or less where the longest row ends, 0 after its end.

        Past a row's end are codes of silence. A row's length is known as soon as a frame past its end is given, and at
        the end.
        Raises SonorantError where the model's numbers are none.
        """
        delay = self._state.codes_BG.shape[1] - 1
        wanted = min(self._given + frames + delay, self._rules.noise_BSG.shape[1])
        if not self._complete and wanted > self._state.step:
            self._state = self._stepper.run(self._state, wanted - int(self._state.step))
            if not np.isfinite([self._state.log_probability_B, self._state.log_survival_B]).all():
                raise SonorantError(
                    "what the language model says holds NaN or infinity; verify the voice, or take another variant"
                )
        there = self._longest if self._complete else int(self._state.step) - delay
        first, self._given = self._given, max(self._given, min(self._given + frames, there))
        return self._undelayed(first, self._given)

    @property
    def ended(self) -> bool:
        """Whether all rows are complete, and all their frames were given."""
        return self._complete  # no step is made before the frames that wait for it are asked for

    @property
    def lengths_B(self) -> NDArray[np.int64]:
        """Frames of each row; -1 where it has not ended."""
        return self._state.ended_B

    @property
    def finish_reasons_B(self) -> NDArray[np.int64]:
        """`FinishReason` of each row so far."""
        return self._state.finish_reason_B

    @property
    def cut_B(self) -> NDArray[np.bool_]:
        """Whether the row's end is its budget's, so that some of its text may be missing."""
        return (self._state.ended_B == self._rules.budget_B) & (self.finish_reasons_B != FinishReason.WELL)

    @property
    def log_probability_B(self) -> NDArray[np.float32]:
        """Mean log-probability of a row's codes so far, under the model at temperature 1; 0 where there are none."""
        state = self._state
        frames_B = np.where(state.ended_B < 0, state.step, state.ended_B)
        return state.log_probability_B / np.maximum(1, frames_B * state.codes_BG.shape[1]).astype(np.float32)

    @property
    def _complete(self) -> bool:
        return bool(complete(self._state, np).all())

    @property
    def _longest(self) -> int:
        return int(self._state.ended_B.max(initial=0))

    def _undelayed(self, first: int, last: int) -> NDArray[np.int64]:
        grid_BSG, codebooks = self._state.grid_BSG, self._state.codes_BG.shape[1]
        codes_BFG = np.stack(
            [grid_BSG[:, first + stream : last + stream, stream] for stream in range(codebooks)], axis=-1
        )
        past_BF1 = ((self.lengths_B >= 0)[:, None] & (np.arange(first, last) >= self.lengths_B[:, None]))[:, :, None]
        return np.where(past_BF1, self._rules.silence_BG[:, None, :], codes_BFG)
