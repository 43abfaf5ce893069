"""Tokens of a batch, as many at a time as are asked for. Knows nothing of what runs the model, or of what is done with a bad end."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sonorant.decoding.state import Rules, State


class Stepper(Protocol):
    """A language model with a cache for one batch at a time; numpy goes in and comes out. `begin` may be called again for another batch."""

    def begin(
        self,
        states_BNC: NDArray[np.float32],
        lengths_B: NDArray[np.int64],
        prompt_BPG: NDArray[np.int64],
        prompt_lengths_B: NDArray[np.int64],
        rules: Rules,
    ) -> None:
        """Take a batch: the encoder's states, phonemes of each row, the prompt (P at least 1) and frames of it of each row.

        Leaves room for as many steps as `rules.noise_BSG` has (B, S, G + 1).
        """

    def run(self, state: State, steps: int) -> State:
        """Go so many steps on from a state, each `advance(state, rules, logits, advance)`; the state is the one that was given last.

        Steppers that see their state without waiting for a device may stop earlier, once all rows are complete.
        """
