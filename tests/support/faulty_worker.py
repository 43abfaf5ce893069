"""`sonorant.training.worker` with a planted fault: python -m tests.support.faulty_worker JOB FAULT"""

import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch

from sonorant.features.batches import Batch
from sonorant.features.plan import MicroBatch, Plan, shard
from sonorant.training import checkpoint, step, trainer, worker
from sonorant.training.distributed import ranks
from tests.support.ports import free_port

LATER = 5
"""The step at which late faults begin."""

Shard = list[tuple[MicroBatch, float]]


def rank() -> int:
    return int(os.environ["RANK"])


def wrapper_bypassed() -> None:
    """The trainer calls the module without DDP's wrapper, so every rank trains alone."""
    _bypass(0)


def wrapper_bypassed_later() -> None:
    """As `wrapper_bypassed`, after the startup proofs have passed."""
    _bypass(LATER)


def _bypass(first: int) -> None:
    gradients = step.TrainStep.gradients

    def bypassed(self: step.TrainStep, number: int, *given: Any) -> dict[str, torch.Tensor]:
        if number >= first:
            self.wrapped = {phase.name: phase.module for phase in self.recipe.phases}  # type: ignore[misc]
        return gradients(self, number, *given)

    step.TrainStep.gradients = bypassed  # type: ignore[assignment, method-assign]


def same_data_on_two_ranks() -> None:
    """Every rank loads the first rank's data."""
    _shard_by(lambda batches, own, world_size: shard(batches, 0, world_size))


def node_local_slicing() -> None:
    """Every node shards the whole plan over its own ranks."""
    local = int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_WORLD_SIZE"])
    _shard_by(lambda batches, own, world_size: shard(batches, *local))


def uneven_shards() -> None:
    """A rank omits the epoch's last micro-batch."""
    _shard_by(lambda batches, own, world_size: _without_the_last(batches, own, world_size) or [(batches[0], 0.0)])


def loader_runs_dry() -> None:
    """A rank's one-epoch loader ends a micro-batch early."""
    trainer.STEPS_LOADED = 1
    trainer.shard = _without_the_last  # type: ignore[assignment]


def _shard_by(sharding: Callable[[list[MicroBatch], int, int], Shard]) -> None:
    step.shard = trainer.shard = sharding  # type: ignore[assignment]


def _without_the_last(batches: list[MicroBatch], own: int, world_size: int) -> Shard:
    return [(batch, share) for batch, share in shard(batches, own, world_size) if own != 1 or batch.number != 3]


def never_reshuffled() -> None:
    """The plan ignores the epoch number."""

    def planned_once(made: Any) -> None:
        first = made.plan.micro_batches(0)
        made.plan = Plan(made.plan.micro_batches_per_step, lambda epoch: first)

    _change_recipes(planned_once)


def epoch_never_set() -> None:
    def first_epoch(self: trainer.Trainer) -> Iterator[tuple[list[MicroBatch], Iterator[Batch]]]:
        while self.step < self.config.steps:
            for micro_batches in self.recipe.plan.steps(0):
                yield micro_batches, self.load([micro_batches])

    trainer.Trainer.steps = first_epoch  # type: ignore[method-assign]


def two_ranks_on_one_device() -> None:
    """All processes have the same device."""
    ranks.Ranks.device_id = property(lambda self: "GPU-8b4ce27d")  # type: ignore[assignment, method-assign]


def wrong_world_size() -> None:
    """Each process is its own world."""
    os.environ.update(RANK="0", WORLD_SIZE="1", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()))
    os.environ["TORCHELASTIC_USE_AGENT_STORE"] = "False"


def one_replica_drifts() -> None:
    """One bit of one weight flips on one rank, later."""
    take = step.TrainStep.take

    def taken(self: step.TrainStep, number: int, *given: Any) -> Any:
        result = take(self, number, *given)
        if number == LATER and self.ranks.rank == 1:
            weight = next(self.recipe.model.parameters()).data
            weight.view(torch.int32).flatten()[7] ^= 1
        return result

    step.TrainStep.take = taken  # type: ignore[assignment, method-assign]


def average_drifts() -> None:
    """A rank's moving average misses an update."""
    update = checkpoint.Ema.update_parameters

    def missed(self: Any, model: torch.nn.Module) -> None:
        if not (rank() == 1 and int(self.n_averaged) == LATER):
            update(self, model)

    checkpoint.Ema.update_parameters = missed  # type: ignore[method-assign]


def other_initial_weights() -> None:
    """A rank initialises its weights from a different seed."""

    def seeded(made: Any) -> None:
        torch.manual_seed(rank())
        torch.nn.init.normal_(next(made.model.parameters()))

    _change_recipes(seeded)


def _change_recipes(change: Callable[[Any], None]) -> None:
    build = worker.recipe_of

    def changed(job: worker.Job) -> Any:
        made = build(job)
        change(made)
        return made

    worker.recipe_of = changed


def none() -> None:
    """The control, without a fault."""


FAULTS: dict[str, Callable[[], None]] = {
    plant.__name__: plant
    for plant in (
        none, wrapper_bypassed, wrapper_bypassed_later, same_data_on_two_ranks, node_local_slicing, never_reshuffled,
        epoch_never_set, two_ranks_on_one_device, wrong_world_size, one_replica_drifts, average_drifts,
        other_initial_weights, uneven_shards, loader_runs_dry,
    )
}  # fmt: skip


def main() -> None:
    """Plant the fault named by the last argument and train."""
    FAULTS[sys.argv.pop()]()
    worker.main()


if __name__ == "__main__":
    main()
