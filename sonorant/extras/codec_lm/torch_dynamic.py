"""Eager decoding in torch with a growing cache, for any batch size and length."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from sonorant.extras.codec_lm import torch_arrays
from sonorant.extras.codec_lm.decoding.advance import advance, complete, looked_at
from sonorant.extras.codec_lm.decoding.state import Batch, Rules, State, draws, penalises
from sonorant.extras.codec_lm.language_model import LanguageModel
from sonorant.layers.kv_cache import Cache, DynamicCache

Fed = tuple[Tensor, Tensor, Tensor, Tensor]
"""States, lengths, prompt and prompt lengths, as in `Stepper.begin`."""


class TorchStep:
    def __init__(self, model: LanguageModel, device: torch.device, half: torch.dtype | None = None) -> None:
        """`model` must be on `device` and in evaluation mode. `half` is autocast's dtype; None means the dtype of the
        weights."""
        self.model = model
        self.device = device
        self.half = half

    def prefill(self, fed: Fed, cache: Cache) -> None:
        with self._precision():
            self.model.prefill(*fed, cache)

    def __call__(self, state: State, rules: Rules, states_BNC: Tensor, cache: Cache, *, drawn: bool) -> State:
        """Return the next state, in torch. `drawn=False` skips sampling and penalties."""
        looked_at_BC = looked_at(state, states_BNC, torch_arrays)
        with self._precision():
            logits_BGK, advance_BA = self.model.step(state.codes_BG, looked_at_BC, state.age_B, state.position_B, cache)
        return advance(state, rules, logits_BGK, advance_BA, torch_arrays, sampled=drawn, penalised=drawn)

    def _precision(self) -> AbstractContextManager[None]:
        # Even a disabled autocast prevents torch from caching the traces of a compiled step.
        if self.half is None:
            return nullcontext()
        return torch.autocast(self.device.type, self.half, cache_enabled=False)


def on_device(batch: Batch, device: torch.device) -> Batch:
    """Copy a batch of numpy arrays into tensors. The arrays may be overwritten later."""
    return type(batch)(*(torch.tensor(field, device=device) for field in batch))


def on_host(state: State) -> State:
    """Copy a torch state into numpy arrays, waiting for the device."""
    return State(*(field.cpu().numpy().copy() for field in state))


class DynamicStepper:
    def __init__(self, step: TorchStep, cache: Callable[[int], Cache] = DynamicCache) -> None:
        """`cache` creates an empty cache for a number of layers; called once per batch."""
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
        device, arrays = self._step.device, (states_BNC, lengths_B, prompt_BPG, prompt_lengths_B)
        self._states_BNC, *rest = (torch.tensor(array, device=device) for array in arrays)
        lengths, prompt, prompt_lengths = rest
        self._cache = self._new_cache(self._step.model.config.layers)
        self._rules = on_device(rules, device)
        self._drawn = draws(rules) or penalises(rules)
        self._given: State | None = None
        self._step.prefill((self._states_BNC, lengths, prompt, prompt_lengths), self._cache)

    @torch.no_grad()
    def run(self, state: State, steps: int) -> State:
        """Run steps. On a GPU, the host waits only for the last one."""
        if state is not self._given:
            self._state = on_device(state, self._step.device)
        for _ in range(steps):
            self._state = self._step(self._state, self._rules, self._states_BNC, self._cache, drawn=self._drawn)
            if self._step.device.type == "cpu" and bool(complete(self._state, torch_arrays).all()):
                break
        self._given = on_host(self._state)
        return self._given
