"""How good the averaged weights are on held-out utterances. Knows nothing of checkpoints or of when it is asked."""

from __future__ import annotations

import torch

from sonorant.data.batches import load
from sonorant.training.step import TrainStep, seed_of, totals_of


@torch.no_grad()
def validation_losses(trained: TrainStep, step: int) -> dict[str, float]:
    """Each loss of the averaged weights over the validation split, dealt over the ranks, and `loss`, their weighted sum."""
    recipe, ranks = trained.recipe, trained.ranks
    phase = recipe.losses(trained.ema.module.eval())
    plan = recipe.validation()
    own = plan[ranks.rank :: ranks.world_size]
    totals = totals_of(recipe, plan)
    losses = dict.fromkeys(phase.terms, 0.0)
    for micro_batch, batch in zip(own, load(recipe.dataset(own), 0, pin=False), strict=True):
        torch.manual_seed(seed_of(trained.config.seed, micro_batch))
        with trained.stopwatch("validation"), trained.autocast():  # a phase a batch: a sign of life
            summed = phase.module({name: value.to(ranks.device) for name, value in batch.items()}, step)
        for name, term in phase.terms.items():
            losses[name] += float(summed[name]) / totals[term.unit]
    with trained.stopwatch("communication"):
        losses = ranks.sum(losses)
    losses["loss"] = sum(term.weight * losses[name] for name, term in phase.terms.items())
    return losses
