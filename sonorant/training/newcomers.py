"""Add speakers to a trained model by training only their embeddings."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import nn


@dataclass(frozen=True, kw_only=True)
class Newcomers:
    """Embedding rows of new speakers, the only weights trained in the first steps of fine-tuning."""

    steps: int
    """Number of first steps that train only new speakers."""
    embedding: nn.Embedding
    rows: tuple[int, ...]

    @contextmanager
    def alone(self, module: nn.Module, step: int) -> Iterator[None]:
        """Train only the new speakers' rows of `module` in the first `steps` steps; all other weights stay
        bit-identical."""
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
        with torch.no_grad():  # AdamW decays even rows with zero gradient
            weight[others] = kept
