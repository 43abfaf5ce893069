"""One optimizer step over a global batch, and the state it changes.

The step is independent of the number of ranks: losses are sums divided by global counts from the plan, and random
numbers are seeded by (seed, epoch, micro-batch). Resume is exact: a step depends only on this state and the plan.
"""

import contextlib
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import nn

from sonorant.errors import SonorantError
from sonorant.features.batches import DRAWN, Batch
from sonorant.features.plan import MicroBatch, shard
from sonorant.training.checkpoint import Ema
from sonorant.training.distributed.ranks import Ranks
from sonorant.training.networks import compile_blocks, distribute, optimizer_of, recompute_blocks
from sonorant.training.recipe import Phase, Recipe, Tensors, weighted
from sonorant.training.sub_batches import Part, SubBatches, add_gradients
from sonorant.training.telemetry.stopwatch import Stopwatch


class TrainStep:
    """A recipe's weights with their EMA, optimizers and gradient scaler; `take` performs one step."""

    def __init__(
        self, recipe: Recipe, ranks: Ranks, stopwatch: Stopwatch, sub_batches: SubBatches | None = None
    ) -> None:
        self.recipe, self.config, self.ranks, self.stopwatch = recipe, recipe.config, ranks, stopwatch
        self.sub_batches = sub_batches or SubBatches(ranks.name)
        for phase in recipe.phases:
            phase.module.to(ranks.device)
        self.ema = Ema(recipe.model, self.config.ema_decay)
        for phase in recipe.phases:
            if self.config.activation_checkpointing:
                recompute_blocks(phase.module)
            if self.config.compile:
                compile_blocks(phase.module, ranks.device)
        self.wrapped = {phase.name: distribute(phase.module) for phase in recipe.phases}
        self.optimizers = {phase.name: optimizer_of(phase.module, self.config) for phase in recipe.phases}
        self.precision: str | None = None
        """fp32, bf16 or fp16; None until `auto` is resolved."""
        self.scaler = torch.amp.GradScaler(ranks.device.type, enabled=False)
        if self.config.precision != "auto":
            self.set_precision(self.config.precision)
        self.computed: list[torch.Tensor] = []
        """Samples that this rank computed in the last step: item and first frame, (B, 2) int64 per micro-batch."""

    def set_precision(self, precision: str) -> None:
        """Set precision and gradient scaler. Raises SonorantError for fp16 without a GPU."""
        if precision == "fp16" and self.ranks.device.type != "cuda":
            raise SonorantError("precision fp16 requires a GPU; use bf16 or fp32 on this machine")
        self.precision = precision
        self.scaler = torch.amp.GradScaler(self.ranks.device.type, enabled=precision == "fp16")

    def take(self, step: int, micro_batches: list[MicroBatch], batches: Iterator[Batch]) -> tuple[Tensors, Tensors]:
        """Perform optimizer step `step`; return this rank's share of the losses, and the gradient norms, as tensors to
        avoid waiting for a GPU."""
        for optimizer in self.optimizers.values():
            for group in optimizer.param_groups:
                group["lr"] = self.config.learning_rate_at(step, self.recipe.budget)
        losses = self.gradients(step, micro_batches, batches)
        return losses, self.update(step)

    def gradients(self, step: int, micro_batches: list[MicroBatch], batches: Iterator[Batch]) -> Tensors:
        """Accumulate the gradients of a global batch, averaged over the ranks; return this rank's share of each
        loss."""
        own = shard(micro_batches, self.ranks.rank, self.ranks.world_size)
        totals = totals_of(self.recipe, micro_batches)
        losses: Tensors = {}
        self.computed = []
        for optimizer in self.optimizers.values():
            optimizer.zero_grad(set_to_none=True)
        for place, (micro_batch, weight) in enumerate(own):
            batch = self.load(step, batches, counted=weight > 0)
            for phase in self.phases_at(step):
                compute = partial(self._pass, step, phase, totals, micro_batch, weight)
                found = self.sub_batches.run(phase.name, batch, place == len(own) - 1, compute)
                for name, value in found.items():
                    share = value * (weight / totals[phase.terms[name].unit])
                    losses[name] = losses[name] + share if name in losses else share
        return losses

    def _pass(
        self,
        step: int,
        phase: Phase,
        totals: dict[str, float],
        micro_batch: MicroBatch,
        weight: float,
        part: Part,
        averaged: bool,
        part_weight: float,
    ) -> Tensors:
        """Add the gradients of part of a micro-batch, averaged over the ranks if `averaged`; return its losses."""
        first, batch = part
        torch.manual_seed(seed_of(self.config.seed, micro_batch) + first)
        with self.stopwatch("forward"), self.autocast():
            losses: Tensors = (self.wrapped[phase.name] if averaged else phase.module)(batch, step)
        # Undo DDP's average: `totals` are global.
        scale = part_weight * weight * self.ranks.world_size
        loss = self.scaler.scale(weighted(phase, losses, totals) * scale)
        with self.stopwatch("backward"):
            if averaged:
                self.sub_batches.averaging = True
                loss.backward()
            else:
                add_gradients(phase.module, loss)
        return {name: value.detach() for name, value in losses.items()}

    def phases_at(self, step: int) -> list[Phase]:
        return [phase for phase in self.recipe.phases if step >= phase.begins]

    def update(self, step: int) -> Tensors:
        """Clip gradients, step the optimizers and update the EMA; return the gradient norms."""
        norms = {}
        with self.stopwatch("optimizer"):
            for phase in self.phases_at(step):
                optimizer = self.optimizers[phase.name]
                self.scaler.unscale_(optimizer)
                alone = phase.newcomers.alone(phase.module, step) if phase.newcomers else contextlib.nullcontext()
                with alone:
                    norms[phase.name] = nn.utils.clip_grad_norm_(phase.module.parameters(), self.config.clip_norm)
                    self.scaler.step(optimizer)
            self.scaler.update()
            self.ema.update_parameters(self.recipe.model)
        return norms

    def load(self, step: int, batches: Iterator[Batch], counted: bool) -> Batch:
        """Move the next batch to this rank's device. `counted`: whether its samples belong to the step."""
        with self.stopwatch("data"):
            try:
                loaded = next(batches)
            except StopIteration:
                raise SonorantError(
                    f"step {step + 1}: {self.ranks.name} ran out of data before the others, because it loaded another "
                    "share of the epoch than planned; compare features and code of the nodes, then start again"
                ) from None
            if counted:
                self.computed.append(loaded[DRAWN])
        with self.stopwatch("transfer"):
            return {name: value.to(self.ranks.device, non_blocking=True) for name, value in loaded.items()}

    def autocast(self) -> contextlib.AbstractContextManager[Any]:
        kind = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(self.precision or "fp32")
        return torch.autocast(self.ranks.device.type, dtype=kind) if kind else contextlib.nullcontext()

    def dry_run(self, batch: Batch) -> None:
        """Run a batch forward and backward through every phase, without keeping gradients. Raises torch's error if
        memory runs out."""
        for phase in self.recipe.phases:
            before = dict(batch)
            with self.autocast():
                summed = phase.module(batch, self.config.steps)  # the last step has all losses
            loss = self.scaler.scale(torch.stack(list(summed.values())).sum())
            torch.autograd.grad(loss, list(phase.module.parameters()))
            self.sub_batches.prove(phase.name, before)

    def state(self) -> dict[str, Any]:
        return {
            "phases": {phase.name: phase.module.state_dict() for phase in self.recipe.phases},
            "optimizers": {name: optimizer.state_dict() for name, optimizer in self.optimizers.items()},
            "ema": self.ema.state_dict(),
            "scaler": self.scaler.state_dict(),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        for phase in self.recipe.phases:
            phase.module.load_state_dict(state["phases"][phase.name])
            self.optimizers[phase.name].load_state_dict(state["optimizers"][phase.name])
        self.ema.load_state_dict(state["ema"])
        self.scaler.load_state_dict(state["scaler"])


def totals_of(recipe: Recipe, micro_batches: list[MicroBatch]) -> dict[str, float]:
    """Return the total of each unit over these micro-batches, from the plan alone."""
    counts = [recipe.units(batch) for batch in micro_batches]
    return {unit: sum(count[unit] for count in counts) for unit in counts[0]}


def seed_of(seed: int, batch: MicroBatch) -> int:
    return hash((seed, batch.epoch, batch.number)) % 2**63
