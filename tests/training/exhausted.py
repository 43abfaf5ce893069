"""A function that runs out of memory where a real one would, for tests of what is done about it."""

from __future__ import annotations

import torch


class Exhausted(torch.autograd.Function):
    """Runs out of memory on its way back, when the gradients of all that comes after it are there already."""

    @staticmethod
    def forward(ctx, x):  # type: ignore[no-untyped-def]
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):  # type: ignore[no-untyped-def]
        raise torch.OutOfMemoryError("Tried to allocate more than there is")
