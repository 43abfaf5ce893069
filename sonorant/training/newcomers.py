"""Add speakers to a trained model: only their embeddings are trained."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import nn


@dataclass(frozen=True, kw_only=True)
class Newcomers:
    """Rows of the speaker embedding, the only weights that the first steps of a fine-tuning train."""

    steps: int
    """Optimizer steps in which only they are trained."""
    embedding: nn.Embedding
    rows: tuple[int, ...]

    @contextmanager
    def alone(self, module: nn.Module, step: int) -> Iterator[None]:
        """An optimizer of `module` changes only these rows, in the first `steps` steps; all other weights stay to
        the bit."""
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
        with torch.no_grad():  # AdamW decays rows with a zero gradient
            weight[others] = kept
