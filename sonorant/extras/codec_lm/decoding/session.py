"""Decode a batch and return its codes in blocks."""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from sonorant.audio.arrays import Floats, Ints
from sonorant.errors import SonorantError
from sonorant.extras.codec_lm.decoding.advance import Key, complete, uniform_noise
from sonorant.extras.codec_lm.decoding.state import Rules, State, make_rules, start_state
from sonorant.speech.decoding import DecodingConfig, DecodingDescription
from sonorant.speech.speaking import FinishReason


class Stepper(Protocol):
    """A language model with a cache for one batch at a time. Uses numpy arrays."""

    def begin(
        self, states_BNC: Floats, lengths_B: Ints, prompt_BPG: Ints, prompt_lengths_B: Ints, rules: Rules
    ) -> None:
        """Start a batch. `lengths_B`: phonemes of each row; `prompt_BPG`: codes to continue, P at least 1;
        `prompt_lengths_B`: prompt frames of each row. Reserves memory for the steps of `rules.noise_BSG` (B, S, G +
        1)."""

    def run(self, state: State, steps: int) -> State:
        """Run `steps` steps from `state`. May stop earlier once all rows are complete, or run more if steps are shared
        with other batches."""


class TokenRuntime(Protocol):
    """Runs the graphs of codec_lm. Shapes: F code frames, G codebooks, others as in
    `sonorant.speech.runtimes.Runtime`."""

    def encode(self, tokens: Ints, lengths: Ints, speaker: Ints) -> Floats:
        """Encode tokens (B, N, 3) with lengths and speaker (B,) -> states (B, N, C)."""

    def stepper(self) -> Stepper:
        """Create a decoder from states to codes, with a separate cache, for one thread."""

    def decode(self, codes: Ints, lengths: Ints) -> Floats:
        """Decode codes (B, F, G) -> frames (B, D, T), to which `SourceRows` then adds rows. `lengths`: real frames of
        each row (B,). Only for voices with a source."""

    def vocode(self, frames: NDArray[Any], lengths: Ints) -> Floats:
        """Compute samples (B, S), about -1 to 1, from frames with source rows (B, R, T), or codes (B, F, G) without a
        source. `lengths`: real frames of each row (B,)."""


class Prompt(NamedTuple):
    """Speech to continue, as codes."""

    codes_BPG: Ints
    """Codes (B, P, G), without delays."""
    lengths_B: Ints
    """Number of frames of each row."""


class Session:
    """Decoding of one batch. Not thread-safe."""

    def __init__(
        self,
        stepper: Stepper,
        states_BNC: Floats,
        lengths_B: Ints,
        description: DecodingDescription,
        config: DecodingConfig,
        keys: Sequence[Key],
        prompt: Prompt | None = None,
    ) -> None:
        """Prefill the cache. `states_BNC`: float32; `lengths_B`: phonemes of each row, including `^` and `$`, int64;
        `keys`: noise key of each row."""
        if prompt is None:
            rows = len(lengths_B)
            prompt = Prompt(np.zeros((rows, 1, description.codebooks), np.int64), np.zeros(rows, np.int64))
        rules = make_rules(lengths_B, description, config, partial(uniform_noise, keys))
        self._state = start_state(rules, prompt.lengths_B, description)
        self._stepper, self._rules = stepper, rules
        self._given = 0
        if not self._complete:
            stepper.begin(states_BNC, lengths_B, prompt.codes_BPG, prompt.lengths_B, rules)

    def more(self, frames: int) -> Ints:
        """Return the codes (B, f, G) of the next frames, with silence past a row's end. f is `frames`, but less at the
        end of the longest row and 0 after it. A row's length is known once a frame past its end has been returned.
        Raises SonorantError if the logits are NaN or infinite."""
        delay = self._state.codes_BG.shape[1] - 1
        wanted = min(self._given + frames + delay, self._rules.noise_BSG.shape[1])
        if not self._complete and wanted > self._made:
            self._state = self._stepper.run(self._state, wanted - self._made)
            if not np.isfinite([self._state.log_probability_B, self._state.log_survival_B]).all():
                raise SonorantError(
                    "the language model's logits contain NaN or infinity; verify the voice, or use another variant"
                )
        there = self._longest if self._complete else self._made - delay
        first, self._given = self._given, max(self._given, min(self._given + frames, there))
        return self._undelayed(first, self._given)

    @property
    def ended(self) -> bool:
        return self._complete and self._given >= self._longest

    @property
    def lengths_B(self) -> Ints:
        """Frames of each row; -1 if the row has not ended."""
        return self._state.ended_B

    @property
    def finish_reasons_B(self) -> Ints:
        return self._state.finish_reason_B

    def pointers(self, row: int) -> Ints:
        """Return the phoneme index (f,) of each frame of a row so far. Indices never decrease, and may extend past the
        returned codes."""
        ended = int(self._state.ended_B[row])
        return self._state.pointers_BS[row, : int(self._state.step_B[row]) if ended < 0 else ended]

    @property
    def cut_B(self) -> NDArray[np.bool_]:
        """Whether the frame budget ended the row, so that text may be missing."""
        return (self._state.ended_B == self._rules.budget_B) & (self.finish_reasons_B != FinishReason.WELL)

    @property
    def log_probability_B(self) -> Floats:
        """Mean log-probability of a row's codes so far at temperature 1; 0 if there are none."""
        state = self._state
        frames_B = np.where(state.ended_B < 0, state.step_B, state.ended_B)
        return state.log_probability_B / np.maximum(1, frames_B * state.codes_BG.shape[1]).astype(np.float32)

    @property
    def _complete(self) -> bool:
        return bool(complete(self._state, np).all())

    @property
    def _made(self) -> int:
        return int(self._state.step_B[~complete(self._state, np)].min(initial=self._rules.noise_BSG.shape[1]))

    @property
    def _longest(self) -> int:
        return int(self._state.ended_B.max(initial=0))

    def _undelayed(self, first: int, last: int) -> Ints:
        grid_BSG, codebooks = self._state.grid_BSG, self._state.codes_BG.shape[1]
        codes_BFG = np.stack(
            [grid_BSG[:, first + stream : last + stream, stream] for stream in range(codebooks)], axis=-1
        )
        past_BF1 = ((self.lengths_B >= 0)[:, None] & (np.arange(first, last) >= self.lengths_B[:, None]))[:, :, None]
        return np.where(past_BF1, self._rules.silence_BG[:, None, :], codes_BFG)
