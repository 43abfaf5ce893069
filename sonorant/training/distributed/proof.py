"""Proof that the ranks train together: one group, a device each, equal state, averaged gradients, a divided plan.

The ranks exchange their evidence and judge it alike: a violation ends all of them with the same error.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch
import torch.distributed as dist

from sonorant.errors import SonorantError
from sonorant.features.batches import DRAWN, Batch
from sonorant.features.plan import MicroBatch, shard
from sonorant.training.distributed.ledger import Ledger
from sonorant.training.distributed.ranks import AllRanksError, Ranks
from sonorant.training.recipe import Recipe, Tensors, weighted
from sonorant.training.step import TrainStep, seed_of, totals_of

CHECK_EVERY = 100
"""Steps between checks, besides the first step and each checkpoint."""
TOLERANCE = 0.02
"""Largest relative distance of DDP's gradients from an explicit average: rounding gives 1e-3, a fault above 0.1."""
Load = Callable[[list[list[MicroBatch]]], Iterator[Batch]]
"""Loads this rank's share of some steps."""
UNWRAPPED = "something calls a phase's module and not its DistributedDataParallel wrapper"
CAUSES = {
    "gradients": f"gradients were not averaged: {UNWRAPPED}",
    "weights": "its memory, links or kind of processor computes differently: take that machine out if it happens again",
    "buffers": "a module changes its buffers by what its rank sees: sum such figures over the ranks",
    "average": "the moving average was updated by something else than the step",
    "optimizer": "it did not load the same checkpoint as the others",
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
    """Checks before the first step and during training."""

    def __init__(self, recipe: Recipe, ranks: Ranks) -> None:
        self.recipe, self.ranks = recipe, ranks
        self.ledger = Ledger(ranks)

    def initial_weights(self) -> None:
        """Check for equal weights before DDP silently broadcasts rank 0's. Raises AllRanksError."""
        if odd := self._odd(_weights_and_buffers(self.recipe)):
            raise AllRanksError(
                f"the ranks do not start from the same weights: {odd[1]}; every rank has to draw them from the seed"
            )

    def before_first_step(self, trained: TrainStep, step: int, epoch: int, place: int, load: Load) -> None:
        """Check state, plan, shares and averaging; changes only gradients. Raises AllRanksError."""
        averages = {"average": _average(trained), "optimizer": _optimizer(trained)}
        self._one_state(step, _weights_and_buffers(self.recipe) | averages)
        first = self.ledger.open(self.recipe.plan, epoch, place)
        with trained.stopwatch("data"):
            loaded = list(load([first]))
        weights = [weight for _, weight in shard(first, self.ranks.rank, self.ranks.world_size)]
        weights += [1.0] * (len(loaded) - len(weights))
        self.ledger.note(batch[DRAWN] for batch, weight in zip(loaded, weights, strict=False) if weight)
        self.ledger.check(step + 1)
        self.ledger.back()
        with _unscaled(trained.scaler):
            self._averaged(trained, step, first, loaded)

    def due(self, step: int, started: int) -> bool:
        """Whether to check after step `step` of a training that started at `started`."""
        return step % CHECK_EVERY == 0 or step == started + 1

    def check(self, trained: TrainStep, step: int) -> None:
        """Check state and samples after optimizer step `step`. Raises AllRanksError."""
        gradients = {"gradients": _gradients(self.recipe)}
        self._one_state(step, gradients | _weights_and_buffers(self.recipe) | {"average": _average(trained)})
        self.ledger.check(step)

    def _one_state(self, step: int, parts: dict[str, Tensors]) -> None:
        if odd := self._odd(parts):
            part, which = odd
            raise AllRanksError(f"step {step}: {which}; {CAUSES[part]}; start again from the last checkpoint")

    def _odd(self, parts: dict[str, Tensors]) -> tuple[str, str] | None:
        """First part that differs between ranks, and a sentence on where; None if all are equal to the bit."""
        if self.ranks.world_size == 1:
            return None
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
                return part, f"the {part} of {who} are not those of the other ranks, first in {first}"
        return None

    def _averaged(self, trained: TrainStep, step: int, micro_batches: list[MicroBatch], loaded: list[Batch]) -> None:
        """Compare the gradients of a step over one row of each micro-batch with an explicit average without DDP, for
        all phases."""
        step = max(step, *(phase.begins for phase in self.recipe.phases))
        cut = [replace(b, items=b.items[:1], starts=None if b.starts is None else b.starts[:1]) for b in micro_batches]
        rows = [{name: value[:1] for name, value in batch.items()} for batch in loaded]
        trained.gradients(step, cut, iter(rows))
        found = torch.cat([gradient.flatten() for gradient in _gradients(self.recipe).values()])
        wanted = _explicit(trained, step, cut, rows)
        for optimizer in trained.optimizers.values():
            optimizer.zero_grad(set_to_none=True)
        compared = found.isfinite() | wanted.isfinite()  # the trainer reports NaN
        distance = ((found - wanted)[compared].norm() / wanted[compared].norm().clamp(min=1e-20)).item()
        for name, far in self.ranks.gather((self.ranks.name, distance)):
            if not far <= TOLERANCE:
                raise AllRanksError(
                    f"{name} does not average its gradients with the others (they are {far:.0%} off the average): "
                    f"{UNWRAPPED}; call TrainStep.wrapped"
                )


@contextmanager
def _unscaled(scaler: torch.amp.GradScaler) -> Iterator[None]:
    """Set the loss scale to 1, so that gradients do not overflow."""
    if not scaler.is_enabled():
        yield
        return
    scaler.scale(torch.zeros((), device=scaler._device))  # creates the scale
    scale = scaler.get_scale()
    scaler.update(1.0)
    yield
    scaler.update(scale)


def _explicit(trained: TrainStep, step: int, micro_batches: list[MicroBatch], rows: list[Batch]) -> torch.Tensor:
    """Flat gradients of all phases, summed over all ranks without DDP."""
    recipe, ranks = trained.recipe, trained.ranks
    totals = totals_of(recipe, micro_batches)
    summed = [torch.zeros_like(parameter) for phase in recipe.phases for parameter in phase.module.parameters()]
    for (micro_batch, weight), row in zip(shard(micro_batches, ranks.rank, ranks.world_size), rows, strict=True):
        batch = {name: value.to(ranks.device) for name, value in row.items()}
        gradients: list[torch.Tensor] = []
        for phase in recipe.phases:
            torch.manual_seed(seed_of(recipe.config.seed, micro_batch))  # as in the step
            with trained.autocast():
                losses = phase.module(batch, step)
            loss = trained.scaler.scale(weighted(phase, losses, totals) * weight)
            gradients += torch.autograd.grad(loss, list(phase.module.parameters()))
        torch._foreach_add_(summed, gradients)
    flat = torch.cat([gradient.flatten() for gradient in summed])
    dist.all_reduce(flat)
    return flat


def _weights_and_buffers(recipe: Recipe) -> dict[str, Tensors]:
    phases = recipe.phases
    return {
        "weights": {f"{of.name}.{name}": value for of in phases for name, value in of.module.named_parameters()},
        "buffers": {f"{of.name}.{name}": value for of in phases for name, value in of.module.named_buffers()},
    }


def _gradients(recipe: Recipe) -> Tensors:
    weights = _weights_and_buffers(recipe)["weights"]
    return {name: torch.zeros_like(value) if value.grad is None else value.grad for name, value in weights.items()}


def _average(trained: TrainStep) -> Tensors:
    return dict(trained.ema.state_dict())


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
