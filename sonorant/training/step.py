"""How the blocks that every network repeats are computed: recomputed in the backward pass, compiled. Knows nothing of
losses or steps.

Both are done to modules in place, block by block: names of weights stay as they are, and DistributedDataParallel is
still what is called.
Compiling the whole network instead takes minutes where lengths vary; a block is compiled once and serves all its
repetitions.

One optimizer step over a global batch, and all that it changes. Knows nothing of loops, files or logs.

Two promises rest on what is computed here. One global batch whatever the machines: every loss term is a sum over the
step's micro-batches divided by the step's global count, which the plan knows, and randomness is drawn from (seed,
epoch, micro-batch), never from the rank. Exact resume: a step depends on this state and the plan alone."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from sonorant.data.batches import DRAWN, Batch
from sonorant.data.plan import MicroBatch, shard
from sonorant.errors import SonorantError
from sonorant.layers.convnext import ConvNeXtBlock, ConvNeXtStack
from sonorant.layers.transformer import Transformer, TransformerLayer
from sonorant.training.checkpoint import Ema
from sonorant.training.distributed.ranks import Ranks
from sonorant.training.memory import SubBatch, SubBatches, out_of_memory, release
from sonorant.training.recipe import Phase, Recipe, weighted
from sonorant.training.telemetry.stopwatch import Stopwatch


def recompute_blocks(module: nn.Module) -> None:
    """Keep only the input of each block or layer for the backward pass and compute the rest of it again (activation
    checkpointing)."""
    for part in module.modules():
        if isinstance(part, ConvNeXtStack | Transformer):
            part.recompute = True


def compile_blocks(module: nn.Module, device: torch.device) -> None:
    """Compile each block or layer for batches and lengths that vary. Raises SonorantError naming the compiler that is
    absent."""
    _require_compiler(device)
    for part in module.modules():
        if isinstance(part, ConvNeXtBlock | TransformerLayer):
            part.compile(dynamic=True)


def _require_compiler(device: torch.device) -> None:
    if device.type == "cuda" and importlib.util.find_spec("triton") is None:
        raise SonorantError("compile: needs triton on a GPU; install it or set compile: false")
    compiler = os.environ.get("CXX", "g++")
    if shutil.which(compiler) is None:
        raise SonorantError(
            f"compile: needs {compiler}, a C++ compiler; install it, name another in CXX, or set compile: false"
        )


class TrainStep:
    """A recipe's weights with their average, optimizers and gradient scaler; `take` changes them by one optimizer
    step."""

    def __init__(
        self, recipe: Recipe, ranks: Ranks, stopwatch: Stopwatch, sub_batches: SubBatches | None = None
    ) -> None:
        self.recipe, self.config, self.ranks, self.stopwatch = recipe, recipe.config, ranks, stopwatch
        self.sub_batches = sub_batches or SubBatches(ranks.name)
        if self.config.precision == "fp16" and ranks.device.type != "cuda":
            raise SonorantError("precision fp16 needs a GPU with its gradient scaler; use bf16 or fp32 on this machine")
        for phase in recipe.phases:
            phase.module.to(ranks.device)
        self.ema = Ema(recipe.model, self.config.ema_decay)
        for phase in recipe.phases:
            if self.config.activation_checkpointing:
                recompute_blocks(phase.module)
            if self.config.compile:
                compile_blocks(phase.module, ranks.device)
        self.wrapped = {phase.name: self._distribute(phase.module) for phase in recipe.phases}
        self.optimizers = {phase.name: self._optimizer(phase.module) for phase in recipe.phases}
        self.scaler = torch.amp.GradScaler(ranks.device.type, enabled=self.config.precision == "fp16")
        self.computed: list[torch.Tensor] = []
        """What this rank really loaded of the last step: for each micro-batch (B, 2) int64, item and first frame."""

    def take(
        self, step: int, micro_batches: list[MicroBatch], batches: Iterator[Batch]
    ) -> dict[str, dict[str, torch.Tensor]]:
        """Optimizer step number `step` over a global batch, of which this rank computes its share.

        Returns this rank's share of each loss and each phase's gradient norm, as tensors: reading them would make a GPU
        wait.
        """
        learning_rate = self.config.learning_rate_at(step)
        for optimizer in self.optimizers.values():
            for group in optimizer.param_groups:
                group["lr"] = learning_rate
        losses = self.gradients(step, micro_batches, batches)
        with self.stopwatch("optimizer"):
            norms = {phase.name: self._update(phase) for phase in self.recipe.phases}
            self.scaler.update()
            self.ema.update_parameters(self.recipe.model)
        return {"losses": losses, "norms": norms}

    def gradients(
        self, step: int, micro_batches: list[MicroBatch], batches: Iterator[Batch]
    ) -> dict[str, torch.Tensor]:
        """Leave the gradients of a global batch, averaged over the ranks, in the parameters; change no weights.

        Returns this rank's share of each loss; `self.computed` is then what was loaded of the samples that count.
        """
        own = shard(micro_batches, self.ranks.rank, self.ranks.world_size)
        totals = totals_of(self.recipe, micro_batches)
        for optimizer in self.optimizers.values():
            optimizer.zero_grad(set_to_none=True)
        self.computed = []
        losses: dict[str, torch.Tensor] = {}
        for place, (micro_batch, weight) in enumerate(own):
            with self.stopwatch("data"):
                loaded = self._next(step, batches)
                if weight:
                    self.computed.append(loaded[DRAWN])
            with self.stopwatch("transfer"):
                batch = {name: value.to(self.ranks.device, non_blocking=True) for name, value in loaded.items()}
            seed = seed_of(self.config.seed, micro_batch)
            for phase in self.recipe.phases:
                summed = self._accumulate(phase, step, batch, totals, weight, seed, last=place == len(own) - 1)
                for name, value in summed.items():
                    share = value * (weight / totals[phase.terms[name].unit])
                    losses[name] = losses[name] + share if name in losses else share
        return losses

    def _next(self, step: int, batches: Iterator[Batch]) -> Batch:
        try:
            return next(batches)
        except StopIteration:
            raise SonorantError(
                f"step {step + 1}: {self.ranks.name} ran out of data before the others: it was loading another "
                "share of the epoch than the plan deals to it; compare features and code of the nodes and start again"
            ) from None

    def dry_run(self, batch: Batch) -> None:
        """Forward and backward of a batch on this rank in every phase, with nothing left of it but what memory it takes
        at most.

        Raises what torch raises where memory does not suffice; what went through once is afterwards known to.
        """
        for phase in self.recipe.phases:
            sub_batch = SubBatch(0, dict(batch))
            with self.autocast():
                summed = phase.module(batch, 0)
            torch.autograd.grad(
                self.scaler.scale(torch.stack(list(summed.values())).sum()), list(phase.module.parameters())
            )
            self.sub_batches.prove(phase.name, sub_batch)

    def _accumulate(
        self, phase: Phase, step: int, batch: Batch, totals: dict[str, float], weight: float, seed: int, last: bool
    ) -> dict[str, torch.Tensor]:
        """Add the gradients of a micro-batch, in sub_batches where memory demands it, and return its summed losses.

        DistributedDataParallel is called once a step, for the last pass; those before it are this rank's own, as under
        its `no_sync` but with static graphs too. A pass in which it averages cannot be repeated: one that memory might
        not suffice for is made without it, and then one of no weight over a single row averages what was added.
        """
        waiting, left = self.sub_batches.of(phase.name, batch), []
        losses: dict[str, torch.Tensor] = {}
        averaged = False
        while waiting:
            sub_batch = waiting.pop(0)
            torch.manual_seed(seed + sub_batch.first)
            averaged = last and not waiting and self.sub_batches.proven(phase.name, sub_batch)
            given = dict(sub_batch.batch)  # a phase leaves in it what a later one needs
            summed = self._pass(phase, step, SubBatch(sub_batch.first, given), totals, weight, averaged)
            if summed is None:
                release(self.ranks.device)
                waiting = [*self.sub_batches.halve(phase.name, sub_batch), *waiting]
                continue
            self.sub_batches.prove(phase.name, sub_batch)
            left.append(given)
            losses = {name: value + losses[name] if losses else value for name, value in summed.items()}
        batch |= {name: torch.cat([given[name] for given in left]) for name in left[0].keys() - batch.keys()}
        if last and not averaged:
            self._pass(phase, step, SubBatch(0, batch).cut(1)[0], totals, 0.0, averaged=True)
        return losses

    def _pass(
        self, phase: Phase, step: int, sub_batch: SubBatch, totals: dict[str, float], weight: float, averaged: bool
    ) -> dict[str, torch.Tensor] | None:
        """Forward and backward of a sub_batch; None where memory did not suffice: nothing has changed then."""
        try:
            with self.stopwatch("forward"), self.autocast():
                summed = (
                    self.wrapped[phase.name](sub_batch.batch, step) if averaged else phase.module(sub_batch.batch, step)
                )
            # DDP averages over ranks; the global count is in `totals` already, so undo the average.
            loss = self.scaler.scale(weighted(phase, summed, totals) * (weight * self.ranks.world_size))
            with self.stopwatch("backward"):
                if averaged:
                    self._averaged_backward(phase, sub_batch, loss)
                else:
                    _add_gradients(phase.module, loss)
        except (RuntimeError, MemoryError) as error:
            if not out_of_memory(error):
                raise
            return None
        return {name: value.detach() for name, value in summed.items()}

    def _averaged_backward(self, phase: Phase, sub_batch: SubBatch, loss: torch.Tensor) -> None:
        try:
            loss.backward()
        except (RuntimeError, MemoryError) as error:
            if not out_of_memory(error):
                raise
            self.sub_batches.halve(phase.name, sub_batch)
            raise SonorantError(
                f"{self.ranks.name}: out of memory while gradients were being averaged, which cannot be "
                "taken back; the same command resumes from the last checkpoint with sub_batches of half the size"
            ) from None

    def _update(self, phase: Phase) -> torch.Tensor:
        optimizer = self.optimizers[phase.name]
        self.scaler.unscale_(optimizer)
        norm = nn.utils.clip_grad_norm_(phase.module.parameters(), self.config.clip_norm)
        self.scaler.step(optimizer)
        return norm

    def autocast(self) -> contextlib.AbstractContextManager[Any]:
        """Of the config's precision, on this rank's device."""
        kinds = {"bf16": torch.bfloat16, "fp16": torch.float16}
        kind = kinds.get(self.config.precision)
        return torch.autocast(self.ranks.device.type, dtype=kind) if kind else contextlib.nullcontext()

    def state(self) -> dict[str, Any]:
        """Weights, average, optimizers and scaler. No generator states: randomness comes from (seed, epoch,
        micro-batch)."""
        return {
            "phases": {phase.name: phase.module.state_dict() for phase in self.recipe.phases},
            "optimizers": {name: optimizer.state_dict() for name, optimizer in self.optimizers.items()},
            "ema": self.ema.state_dict(),
            "scaler": self.scaler.state_dict(),
        }

    def load(self, state: dict[str, Any]) -> None:
        """Take over what `state` returned."""
        for phase in self.recipe.phases:
            phase.module.load_state_dict(state["phases"][phase.name])
            self.optimizers[phase.name].load_state_dict(state["optimizers"][phase.name])
        self.ema.load_state_dict(state["ema"])
        self.scaler.load_state_dict(state["scaler"])

    def _distribute(self, module: nn.Module) -> DistributedDataParallel:
        # Without device_ids, with which it would hand the module a copy of the batch: phases pass tensors on in it
        # (vocoder.FAKE).
        # Buffers are constants here: nothing to broadcast at every step.
        # Every step calls the wrapper once, for one graph, and averages in that call; passes before it go around it: a
        # static graph.
        return DistributedDataParallel(
            module, forward_sync_buffers=False, gradient_as_bucket_view=True, static_graph=True
        )

    def _optimizer(self, module: nn.Module) -> torch.optim.Optimizer:
        matrices = [parameter for parameter in module.parameters() if parameter.ndim >= 2]
        others = [parameter for parameter in module.parameters() if parameter.ndim < 2]
        groups = [
            {"params": matrices, "weight_decay": self.config.weight_decay},
            {"params": others, "weight_decay": 0.0},
        ]
        return torch.optim.AdamW(groups, lr=self.config.learning_rate, betas=(0.9, 0.98), fused=True)


def totals_of(recipe: Recipe, micro_batches: list[MicroBatch]) -> dict[str, float]:
    """Global count of each unit over these micro-batches, known from the plan alone."""
    counts = [recipe.units(batch) for batch in micro_batches]
    return {unit: sum(count[unit] for count in counts) for unit in counts[0]}


def seed_of(seed: int, batch: MicroBatch) -> int:
    """Of the random numbers of a micro-batch, on whichever rank it is computed."""
    return hash((seed, batch.epoch, batch.number)) % 2**63


def _add_gradients(module: nn.Module, loss: torch.Tensor) -> None:
    """As `loss.backward()` does, but wholly or not at all, and unseen by DistributedDataParallel."""
    parameters = list(module.parameters())
    for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        parameter.grad += gradient
