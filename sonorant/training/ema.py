"""The moving average of a model's weights, which is what ships. Knows nothing of training."""

from __future__ import annotations

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel


class Average(AveragedModel):
    """An exponential moving average of a model's weights; buffers are constants and stay as they were copied.

    It trusts its first steps less: the decay at step n is at most (n + 1) / (n + 10).
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        super().__init__(model)
        self.decay = decay

    @torch.no_grad()
    def update_parameters(self, model: nn.Module) -> None:
        """Take in the weights of `model`. Unlike torch's own, which moves its counter to the GPU, it never waits for the step."""
        number = int(self.n_averaged)
        averages: list[torch.Tensor] = list(self.module.parameters())
        current: list[torch.Tensor] = list(model.parameters())
        if number == 0:
            torch._foreach_copy_(averages, current)
        else:
            torch._foreach_lerp_(averages, current, 1.0 - min(self.decay, (number + 1) / (number + 10)))
        self.n_averaged += 1
