"""Proof that the ranks train together: one group, a device each, equal state, averaged gradients, a divided plan.

The ranks exchange their evidence: a violation ends all of them with the same error.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import torch

from sonorant.errors import SonorantError
from sonorant.features.batches import Batch
from sonorant.features.plan import MicroBatch
from sonorant.training.distributed.ledger import Ledger
from sonorant.training.distributed.ranks import AllRanksError, Ranks
from sonorant.training.recipe import Recipe, Tensors
from sonorant.training.step import TrainStep

CHECK_EVERY = 100
"""Steps between checks, besides the first step and each checkpoint."""
Load = Callable[[list[list[MicroBatch]]], Iterator[Batch]]
"""Loads this rank's share of some steps."""
CAUSES = {
    "gradients": "gradients were not averaged: call `TrainStep.wrapped`, not a phase's module",
    "weights": "start again from the last checkpoint; if that machine computes differently once more, take it out",
    "buffers": "a module changes its buffers by its rank's data: sum such figures over the ranks",
    "average": "the moving average was updated outside the step: start again from the last checkpoint",
    "optimizer": "it did not load the same checkpoint as the others: start again",
}
"""Causes of a difference by part of the state, in causal order."""


def prove_group(ranks: Ranks, expected: int) -> None:
    """Check that `expected` ranks met, each on a device of its own. Raises SonorantError."""
    if expected != ranks.world_size:
        raise SonorantError(
            f"{ranks.name}: {expected} ranks were to train together but {ranks.world_size} met, so that each group "
            "would train alone: every node needs the same PET_NNODES, PET_NPROC_PER_NODE and address of the first node"
        )
    seen: dict[str, str] = {}
    for device, name in ranks.gather((ranks.device_id, ranks.name)):
        if device in seen:
            raise AllRanksError(
                f"{name} has the same device as {seen[device]} ({device}): start one process a device "
                "(PET_NPROC_PER_NODE), with CUDA_VISIBLE_DEVICES the same for all processes of a node"
            )
        seen[device] = name


class Proof:
    def __init__(self, recipe: Recipe, ranks: Ranks) -> None:
        self.recipe, self.ranks = recipe, ranks
        self.ledger = Ledger(ranks)

    def initial_weights(self) -> None:
        """Check for equal weights before DDP silently broadcasts rank 0's. Raises AllRanksError."""
        self._one_state("before training", _weights_and_buffers(self.recipe))

    def before_first_step(self, trained: TrainStep, step: int, epoch: int, place: int, load: Load) -> None:
        """Check state and plan, and settle DDP's buckets by a pass over a row of each micro-batch: DDP rebuilds them
        after its first pass, and they decide the order of sums. Changes only gradients. Raises AllRanksError."""
        averages = {"average": dict(trained.ema.state_dict()), "optimizer": _optimizer(trained)}
        self._one_state(f"step {step}", _weights_and_buffers(self.recipe) | averages)
        first = self.ledger.open(self.recipe.plan, epoch, place)
        rows = ({name: value[:1] for name, value in batch.items()} for batch in load([first]))
        cut = [replace(b, items=b.items[:1], starts=None if b.starts is None else b.starts[:1]) for b in first]
        trained.gradients(max(step, *(phase.begins for phase in self.recipe.phases)), cut, rows)
        for optimizer in trained.optimizers.values():
            optimizer.zero_grad(set_to_none=True)

    def due(self, step: int, started: int) -> bool:
        return step % CHECK_EVERY == 0 or step == started + 1

    def check(self, trained: TrainStep, step: int) -> None:
        """Raise AllRanksError if state or samples are not those of one training."""
        parts = {"gradients": _gradients(self.recipe)} | _weights_and_buffers(self.recipe)
        self._one_state(f"step {step}", parts | {"average": dict(trained.ema.state_dict())})
        self.ledger.check(step)

    def _one_state(self, when: str, parts: dict[str, Tensors]) -> None:
        """Raise AllRanksError if a part of the state differs between ranks by a bit."""
        if self.ranks.world_size == 1:
            return
        own = {part: _hash(tensors.values()) for part, tensors in parts.items()}
        gathered = self.ranks.gather((self.ranks.name, own))
        for part, tensors in parts.items():
            hashes = [hashes[part] for _, hashes in gathered]
            usual, _ = Counter(hashes).most_common(1)[0]
            odd = [rank for rank, found in enumerate(hashes) if found != usual]
            if odd:
                each = self.ranks.gather({name: _hash([tensor]) for name, tensor in tensors.items()})
                odd_one, usual_one = each[odd[0]], each[hashes.index(usual)]
                differing = (name for name in tensors if odd_one.get(name) != usual_one.get(name))
                first = next(differing, "their number")
                who = " and ".join(gathered[rank][0] for rank in odd)
                raise AllRanksError(
                    f"{when}: the {part} of {who} are not those of the other ranks, first in {first}; {CAUSES[part]}"
                )


def _weights_and_buffers(recipe: Recipe) -> dict[str, Tensors]:
    phases = recipe.phases
    return {
        "weights": {f"{of.name}.{name}": value for of in phases for name, value in of.module.named_parameters()},
        "buffers": {f"{of.name}.{name}": value for of in phases for name, value in of.module.named_buffers()},
    }


def _gradients(recipe: Recipe) -> Tensors:
    weights = _weights_and_buffers(recipe)["weights"]
    return {name: torch.zeros_like(value) if value.grad is None else value.grad for name, value in weights.items()}


def _optimizer(trained: TrainStep) -> Tensors:
    return {
        f"{of}.{number}.{name}": value
        for of, optimizer in trained.optimizers.items()
        for number, state in optimizer.state_dict()["state"].items()
        for name, value in state.items()
        if isinstance(value, torch.Tensor)
    }


def _hash(tensors: Iterable[torch.Tensor]) -> str:
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
