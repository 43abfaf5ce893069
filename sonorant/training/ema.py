"""The moving average of a model's weights, which is what ships. Knows nothing of training."""

from __future__ import annotations

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel

Tensors = tuple[torch.Tensor, ...] | list[torch.Tensor]


def averaged(model: nn.Module, decay: float) -> AveragedModel:
    """An exponential moving average of `model` that trusts its first steps less: decay at step n is at most (n + 1) / (n + 10)."""

    @torch.no_grad()
    def update(averages: Tensors, current: Tensors, _: torch.Tensor | int) -> None:
        number = int(average.n_averaged)  # the one handed in is on the GPU, and reading it would wait for the step
        torch._foreach_lerp_(averages, current, 1.0 - min(decay, (number + 1) / (number + 10)))

    average = AveragedModel(model, multi_avg_fn=update)
    return average
