"""Decoding with a cache that grows, operator by operator: takes any batch of any length. Knows nothing of how to be fast."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from numpy.typing import NDArray

from sonorant.decoding import torch_arrays
from sonorant.decoding.advance import complete
from sonorant.decoding.state import Rules, State, draws, penalises
from sonorant.decoding.torch_step import Fed, TorchStep, state_of, to_device
from sonorant.models.cache import Cache, DynamicCache


class DynamicStepper:
    """A `sonorant.decoding.session.Stepper`."""

    def __init__(self, step: TorchStep, cache: Callable[[int], Cache] = DynamicCache) -> None:
        """`cache`: makes an empty one for so many layers, for each batch."""
        self._step, self._new_cache = step, cache

    @torch.no_grad()
    def begin(
        self,
        states_BNC: NDArray[Any],
        lengths_B: NDArray[Any],
        prompt_BPG: NDArray[Any],
        prompt_lengths_B: NDArray[Any],
        rules: Rules,
    ) -> None:
        """As `Stepper.begin`."""
        device = self._step.device
        fed = Fed(*(to_device(array, device) for array in (states_BNC, lengths_B, prompt_BPG, prompt_lengths_B)))
        self._states_BNC = fed.states_BNC
        self._cache = self._new_cache(self._step.model.config.layers)
        self._rules = Rules(*(to_device(field, device) for field in rules))
        self._drawn = draws(rules) or penalises(rules)
        self._given: State | None = None
        self._step.prefill(fed, self._cache)

    @torch.no_grad()
    def run(self, state: State, steps: int) -> State:
        """As `Stepper.run`; on a GPU nothing is waited for before the last step."""
        if state is not self._given:
            self._state = State(*(to_device(field, self._step.device) for field in state))
        for _ in range(steps):
            self._state = self._step(self._state, self._rules, self._states_BNC, self._cache, drawn=self._drawn)
            if self._step.device.type == "cpu" and bool(complete(self._state, torch_arrays).all()):
                break
        self._given = state_of(self._state)
        return self._given
