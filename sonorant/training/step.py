"""One optimizer step over a global batch, and the state it changes.

Two promises rest on this file. One global batch, whatever the machines: each loss term is a sum over the step's
micro-batches divided by the step's global count, which the plan knows, and random numbers come from (seed, epoch,
micro-batch), never from the rank. Exact resume: a step depends on this state and the plan alone.
"""

import contextlib
from collections.abc import Iterator
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
from sonorant.training.sub_batches import Passes, SubBatch, SubBatches
from sonorant.training.telemetry.stopwatch import Stopwatch


class TrainStep:
    """A recipe's weights with their EMA, optimizers and gradient scaler; `take` changes them by one step."""

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
        self.wrapped: dict[str, nn.Module] = {phase.name: distribute(phase.module) for phase in recipe.phases}
        self.optimizers = {phase.name: optimizer_of(phase.module, self.config) for phase in recipe.phases}
        self.precision: str | None = None
        """fp32, bf16 or fp16; None while it has to be found (`auto`)."""
        self.scaler = torch.amp.GradScaler(ranks.device.type, enabled=False)
        if self.config.precision != "auto":
            self.set_precision(self.config.precision)
        self.computed: list[torch.Tensor] = []
        """The samples that this rank loaded in the last step: per micro-batch (B, 2) int64, item and first frame."""

    def set_precision(self, precision: str) -> None:
        """Compute in this precision from now on. Raises SonorantError for fp16 without a GPU."""
        if precision == "fp16" and self.ranks.device.type != "cuda":
            raise SonorantError("precision fp16 needs a GPU with its gradient scaler; use bf16 or fp32 on this machine")
        self.precision = precision
        self.scaler = torch.amp.GradScaler(self.ranks.device.type, enabled=precision == "fp16")

    def take(self, step: int, micro_batches: list[MicroBatch], batches: Iterator[Batch]) -> dict[str, Tensors]:
        """Take optimizer step `step` over a global batch, of which this rank computes its share.

        Returns its share of each loss and each phase's gradient norm, as tensors: reading them makes a GPU wait.
        """
        for optimizer in self.optimizers.values():
            for group in optimizer.param_groups:
                group["lr"] = self.config.learning_rate_at(step, self.recipe.budget)
        losses = self.gradients(step, micro_batches, batches)
        return {"losses": losses, "norms": self.update(step)}

    def gradients(self, step: int, micro_batches: list[MicroBatch], batches: Iterator[Batch]) -> Tensors:
        """Leave the gradients of a global batch, averaged over the ranks, in the parameters; change no weights.

        Returns this rank's share of each loss, and leaves the samples that count in `self.computed`.
        """
        own = shard(micro_batches, self.ranks.rank, self.ranks.world_size)
        totals = totals_of(self.recipe, micro_batches)
        losses: Tensors = {}
        self.computed = []
        for optimizer in self.optimizers.values():
            optimizer.zero_grad(set_to_none=True)
        for place, (micro_batch, weight) in enumerate(own):
            batch = self.load(step, batches, counted=weight > 0)
            for phase in self.phases_at(step):
                passes = self.passes(phase, batch, last=place == len(own) - 1)
                for part in passes:
                    with part:  # the whole micro-batch, or what memory holds of it
                        torch.manual_seed(seed_of(self.config.seed, micro_batch) + part.first)
                        with self.autocast():
                            part.forward(step)
                        # DDP averages over the ranks; `totals` are global already, so undo the average.
                        scale = part.weight * weight * self.ranks.world_size
                        part.backward(self.scaler.scale(weighted(phase, part.losses, totals) * scale))
                for name, value in passes.losses.items():
                    share = value * (weight / totals[phase.terms[name].unit])
                    losses[name] = losses[name] + share if name in losses else share
        return losses

    def phases_at(self, step: int) -> list[Phase]:
        """Those that have begun by optimizer step `step`."""
        return [phase for phase in self.recipe.phases if step >= phase.begins]

    def update(self, step: int) -> Tensors:
        """Clip the gradients of step `step`, change the weights by them and update the EMA; return the norms."""
        norms, clip_norm = {}, self.config.clip_norm_in(self.precision)
        with self.stopwatch("optimizer"):
            for phase in self.phases_at(step):
                optimizer = self.optimizers[phase.name]
                self.scaler.unscale_(optimizer)
                alone = phase.newcomers.alone(phase.module, step) if phase.newcomers else contextlib.nullcontext()
                with alone:
                    norms[phase.name] = nn.utils.clip_grad_norm_(phase.module.parameters(), clip_norm)
                    self.scaler.step(optimizer)
            self.scaler.update()
            self.ema.update_parameters(self.recipe.model)
        return norms

    def load(self, step: int, batches: Iterator[Batch], counted: bool) -> Batch:
        """Return the next batch, on this rank's device; `counted`: whether its samples belong to the step."""
        with self.stopwatch("data"):
            try:
                loaded = next(batches)
            except StopIteration:
                raise SonorantError(
                    f"step {step + 1}: {self.ranks.name} ran out of data before the others: it was loading another "
                    "share of the epoch than the plan gives it; compare features and code of the nodes and start again"
                ) from None
            if counted:
                self.computed.append(loaded[DRAWN])
        with self.stopwatch("transfer"):
            return {name: value.to(self.ranks.device, non_blocking=True) for name, value in loaded.items()}

    def passes(self, phase: Phase, batch: Batch, last: bool) -> Passes:
        """The passes in which `batch` goes through `phase`."""
        return Passes(self.sub_batches, phase, self.wrapped[phase.name], batch, last, self.stopwatch)

    def autocast(self) -> contextlib.AbstractContextManager[Any]:
        """Autocast of the precision on this rank's device."""
        kind = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(self.precision or "fp32")
        return torch.autocast(self.ranks.device.type, dtype=kind) if kind else contextlib.nullcontext()

    def dry_run(self, batch: Batch) -> None:
        """Take a batch forward and backward through every phase and leave nothing behind but the memory's peak.

        Raises torch's error if memory does not suffice; otherwise a batch of this size counts as proven.
        """
        for phase in self.recipe.phases:
            sub_batch = SubBatch(0, dict(batch))
            with self.autocast():
                summed = phase.module(batch, self.config.steps)  # the last one, of all losses
            loss = self.scaler.scale(torch.stack(list(summed.values())).sum())
            torch.autograd.grad(loss, list(phase.module.parameters()))
            self.sub_batches.prove(phase.name, sub_batch)

    def state(self) -> dict[str, Any]:
        """Weights, EMA, optimizers and scaler; no generators: randomness comes from (seed, epoch, micro-batch)."""
        return {
            "phases": {phase.name: phase.module.state_dict() for phase in self.recipe.phases},
            "optimizers": {name: optimizer.state_dict() for name, optimizer in self.optimizers.items()},
            "ema": self.ema.state_dict(),
            "scaler": self.scaler.state_dict(),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Restore what `state` returned."""
        for phase in self.recipe.phases:
            phase.module.load_state_dict(state["phases"][phase.name])
            self.optimizers[phase.name].load_state_dict(state["optimizers"][phase.name])
        self.ema.load_state_dict(state["ema"])
        self.scaler.load_state_dict(state["scaler"])


def totals_of(recipe: Recipe, micro_batches: list[MicroBatch]) -> dict[str, float]:
    """Global count of each unit over these micro-batches, known from the plan alone."""
    counts = [recipe.units(batch) for batch in micro_batches]
    return {unit: sum(count[unit] for count in counts) for unit in counts[0]}


def seed_of(seed: int, batch: MicroBatch) -> int:
    """Seed of the random numbers of a micro-batch, on whichever rank it is computed."""
    return hash((seed, batch.epoch, batch.number)) % 2**63
