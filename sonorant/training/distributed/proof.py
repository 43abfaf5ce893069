"""Check that the ranks train together: in one group, on separate devices, with equal state, averaged gradients and
different samples.

The ranks exchange hashes, so that all of them stop with the same error.
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
"""Steps between checks, in addition to the first step and each checkpoint."""
Load = Callable[[list[list[MicroBatch]]], Iterator[Batch]]
"""Function that loads this rank's share of the given steps."""
CAUSES = {
    "gradients": "gradients were not averaged: call `TrainStep.wrapped`, not a phase's module",
    "weights": "start again from the last checkpoint; if the machine computes differently again, remove it",
    "buffers": "a module updates its buffers from its rank's data: sum these values over the ranks",
    "average": "the moving average was updated outside the step: start again from the last checkpoint",
    "optimizer": "the rank did not load the same checkpoint as the others: start again",
}
"""Likely cause of a difference in each part of the state; causes come before their effects."""


def prove_group(ranks: Ranks, expected: int) -> None:
    """Raise SonorantError unless `expected` ranks joined, each on a separate device."""
    if expected != ranks.world_size:
        raise SonorantError(
            f"{ranks.name}: {expected} ranks should train together but {ranks.world_size} joined, so each group "
            "would train alone; set the same PET_NNODES, PET_NPROC_PER_NODE and first node's address on every node"
        )
    seen: dict[str, str] = {}
    for device, name in ranks.gather((ranks.device_id, ranks.name)):
        if device in seen:
            raise AllRanksError(
                f"{name} has the same device as {seen[device]} ({device}); start one process per device "
                "(PET_NPROC_PER_NODE), with CUDA_VISIBLE_DEVICES the same for all processes of a node"
            )
        seen[device] = name


class Proof:
    def __init__(self, recipe: Recipe, ranks: Ranks) -> None:
        self.recipe, self.ranks = recipe, ranks
        self.ledger = Ledger(ranks)

    def initial_weights(self) -> None:
        """Raise AllRanksError if weights differ between ranks, before DDP silently broadcasts those of rank 0."""
        self._one_state("before training", _weights_and_buffers(self.recipe))

    def before_first_step(self, trained: TrainStep, step: int, epoch: int, place: int, load: Load) -> None:
        """Raise AllRanksError if state or plan differ. Then run a row of each micro-batch forward and backward twice,
        because DDP rebuilds its buckets, which decide the order of sums, after the second pass of a static graph."""
        averages = {"average": dict(trained.ema.state_dict()), "optimizer": _optimizer(trained)}
        self._one_state(f"step {step}", _weights_and_buffers(self.recipe) | averages)
        first = self.ledger.open(self.recipe.plan, epoch, place)
        cut = [replace(b, items=b.items[:1], starts=None if b.starts is None else b.starts[:1]) for b in first]
        for _ in range(2):
            rows = ({name: value[:1] for name, value in batch.items()} for batch in load([first]))
            trained.gradients(max(step, *(phase.begins for phase in self.recipe.phases)), cut, rows)
        for optimizer in trained.optimizers.values():
            optimizer.zero_grad(set_to_none=True)

    def due(self, step: int, started: int) -> bool:
        return step % CHECK_EVERY == 0 or step == started + 1

    def check(self, trained: TrainStep, step: int) -> None:
        """Raise AllRanksError if state differs between ranks, or their samples differ from the plan."""
        parts = {"gradients": _gradients(self.recipe)} | _weights_and_buffers(self.recipe)
        self._one_state(f"step {step}", parts | {"average": dict(trained.ema.state_dict())})
        self.ledger.check(step)

    def _one_state(self, when: str, parts: dict[str, Tensors]) -> None:
        """Raise AllRanksError unless `parts` are bit-identical on all ranks."""
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
                    f"{when}: the {part} of {who} differ from those of the other ranks, first in {first}; "
                    f"{CAUSES[part]}"
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
