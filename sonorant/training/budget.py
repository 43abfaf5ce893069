"""How much a micro-batch may hold, found by running the heaviest ones. Knows nothing of what a budget counts: the recipe does.

Memory is a fixed part and one in proportion to the budget, so a budget multiplied by `allowed / taken` never takes more than is allowed
and comes close after a few trials: nothing larger than what fits is ever run.
"""

from __future__ import annotations

from sonorant.data.batches import Batch
from sonorant.training import memory
from sonorant.training.pieces import out_of_memory, release
from sonorant.training.ranks import AllRanksError
from sonorant.training.step import TrainStep

STEPS_AN_EPOCH = 50
"""A budget found is never so large that an epoch has fewer steps: what fits into memory may be too much to learn from."""
CLOSE_ENOUGH = 1.1
"""A larger budget is tried while it is larger by this factor."""
FASTEST_GROWTH = 4.0
"""From one trial to the next: the first ones, of a few frames, say little."""


def find(trained: TrainStep, share: float) -> int:
    """The largest budget whose heaviest micro-batches stay within `share` of the memory that is free on every rank.

    Sets the recipe's budget to it. Bounded so that an epoch has `STEPS_AN_EPOCH` steps. Changes no weights and draws no numbers that
    training would. Every rank must ask. Raises AllRanksError where not even the smallest budget fits.
    """
    recipe, ranks = trained.recipe, trained.ranks
    smallest, largest = recipe.budget_range(STEPS_AN_EPOCH)
    allowed = memory.allowance(ranks.device, share) - _yet_to_come(trained)
    found, trial = 0, smallest
    while trial <= largest:
        taken = _peak_of(trained, trial)
        if taken is None or taken > allowed:
            break
        found = trial
        trial = min(largest, int(trial * min(allowed / taken, FASTEST_GROWTH)))
        if trial < found * CLOSE_ENOUGH and not (trial == largest > found):
            break
    recipe.budget, allowed, name = min(ranks.gather((found, allowed, ranks.name)))
    if not recipe.budget:
        raise AllRanksError(
            f"{name}: the heaviest micro-batch of the smallest budget ({smallest}) does not fit into "
            f"{max(0, allowed) / 2**30:.1f} GiB: free memory, raise machine.memory_share, or set activation_checkpointing: true"
        )
    return recipe.budget


def _yet_to_come(trained: TrainStep) -> int:
    """Bytes that the first optimizer step will take besides: gradients, twice where they are added, and AdamW's two averages."""
    return sum(4 * parameter.nbytes for phase in trained.recipe.phases for parameter in phase.module.parameters())


def _peak_of(trained: TrainStep, budget: int) -> int | None:
    """Bytes held at most while the heaviest micro-batches of `budget` go forward and backward; None where they do not fit."""
    recipe, device = trained.recipe, trained.ranks.device
    recipe.budget = budget
    memory.forget_peak(device)
    batches = recipe.dataset(recipe.heaviest())
    try:
        for index in range(len(batches)):  # type: ignore[arg-type]
            batch: Batch = {name: value.to(device) for name, value in batches[index].items()}
            trained.rehearse(batch)
    except (RuntimeError, MemoryError) as error:
        if not out_of_memory(error):
            raise
        release(device)
        return None
    return memory.peak(device)
