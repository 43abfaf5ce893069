"""Speakers who are new to a trained model learn alone, while nothing of the others is changed."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import nn


@dataclass(frozen=True, kw_only=True)
class Newcomers:
    """The rows of an embedding that the first steps of a fine-tuning train, and no other weight.

    Whether they are alone depends on the step's number only, so a training resumes as it would have gone on.
    """

    steps: int
    """Optimizer steps in which they learn alone."""
    embedding: nn.Embedding
    """Of the speakers."""
    rows: tuple[int, ...]
    """Theirs."""

    @contextmanager
    def alone(self, module: nn.Module, step: int) -> Iterator[None]:
        """Within it, an optimizer of `module` changes their rows alone, if optimizer step `step` is one of `steps`.

        Others keep their weights to the bit, and get no moments in the optimizer: they begin to learn afterwards as if
        it were the first step.
        """
        if step >= self.steps:
            yield
            return
        weight = self.embedding.weight
        for parameter in module.parameters():
            if parameter is not weight:
                parameter.grad = None
        others = torch.ones(len(weight), dtype=torch.bool, device=weight.device)
        others[list(self.rows)] = False
        if weight.grad is not None:
            weight.grad[others] = 0.0
        kept = weight.detach()[others]
        yield
        with torch.no_grad():  # AdamW lets weights decay that have no gradient
            weight[others] = kept
