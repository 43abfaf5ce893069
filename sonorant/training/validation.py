"""Validation losses of the EMA, computed by all ranks together."""

import torch

from sonorant.features.batches import prefetched
from sonorant.features.plan import MicroBatch
from sonorant.training.step import TrainStep, seed_of, totals_of


@torch.no_grad()
def validation_losses(trained: TrainStep, plan: list[MicroBatch], step: int) -> tuple[dict[str, float], list[float]]:
    """Return the EMA's losses over `plan` with their weighted sum `loss`, and that sum per micro-batch of this rank."""
    recipe, ranks = trained.recipe, trained.ranks
    phase = recipe.losses(trained.ema.module.eval())
    own = plan[ranks.rank :: ranks.world_size]
    totals = totals_of(recipe, plan)
    losses = dict.fromkeys(phase.terms, 0.0)
    alone: list[float] = []
    for micro_batch, batch in zip(own, prefetched(recipe.dataset(own), 0, pin=False), strict=True):
        torch.manual_seed(seed_of(trained.config.seed, micro_batch))
        with trained.stopwatch("validation"), trained.autocast():  # per batch: progress for the watchdog
            summed = phase.module({name: value.to(ranks.device) for name, value in batch.items()}, step)
        values, units = {name: float(summed[name]) for name in phase.terms}, recipe.units(micro_batch)
        for name, term in phase.terms.items():
            losses[name] += values[name] / totals[term.unit]
        alone.append(sum(term.weight * values[name] / units[term.unit] for name, term in phase.terms.items()))
    with trained.stopwatch("communication"):
        losses = ranks.sum(losses)
    losses["loss"] = sum(term.weight * losses[name] for name, term in phase.terms.items())
    return losses, alone


def one_by_one(plan: list[MicroBatch]) -> list[MicroBatch]:
    """Return each utterance of a validation plan once, in a separate micro-batch."""
    alone: dict[int, MicroBatch] = {}
    for batch in reversed(plan):  # a plan of segments repeats its start at its end
        for row in reversed(range(len(batch.items))):
            item, start = int(batch.items[row]), None if batch.starts is None else batch.starts[[row]]
            alone[item] = MicroBatch(batch.epoch, item, batch.items[[row]], start)
    return [alone[item] for item in sorted(alone)]
