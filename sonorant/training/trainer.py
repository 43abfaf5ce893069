"""The training loop, the same for every model. Knows nothing of text, audio or MLflow; a `Recipe` brings the model.

Two promises rest on what is computed where. One global batch whatever the machines: every loss term is a sum over the step's
micro-batches divided by the step's global count, which the plan knows, and randomness is drawn from (seed, epoch, micro-batch), never
from the rank. Exact resume: a step depends on the checkpoint and the plan alone.
"""

from __future__ import annotations

import contextlib
import math
import signal
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from sonorant.data.batches import Batch, load
from sonorant.data.plan import MicroBatch, deal
from sonorant.errors import SonorantError
from sonorant.files import atomic_folder
from sonorant.training import checkpoint
from sonorant.training.ema import averaged
from sonorant.training.progress import Progress
from sonorant.training.ranks import Ranks
from sonorant.training.recipe import Phase, Recipe, weighted
from sonorant.training.run_directory import MetricsLog, RunDirectory
from sonorant.training.stopwatch import Stopwatch

CHECK_EVERY = 100
"""Steps between proofs that the ranks still hold the same weights."""


class Trainer:
    """Trains a recipe in a run directory until its last step or a SIGTERM."""

    def __init__(self, recipe: Recipe, ranks: Ranks, run: RunDirectory, fingerprint: str, workers: int = 0) -> None:
        self.recipe, self.config, self.ranks, self.run = recipe, recipe.config, ranks, run
        self.fingerprint = fingerprint
        self.workers = workers
        if self.config.precision == "fp16" and ranks.device.type != "cuda":
            raise SonorantError("precision fp16 needs a GPU with its gradient scaler; use bf16 or fp32 on this machine")
        for phase in recipe.phases:
            phase.module.to(ranks.device)
        self.ema = averaged(recipe.model, self.config.ema_decay)
        self.wrapped = {phase.name: self._distribute(phase.module) for phase in recipe.phases}
        self.optimizers = {phase.name: self._optimizer(phase.module) for phase in recipe.phases}
        self.scaler = torch.amp.GradScaler(ranks.device.type, enabled=self.config.precision == "fp16")
        self.step = 0
        self.epoch, self.step_in_epoch = 0, 0
        self.best_loss = float("inf")
        self.stopwatch = Stopwatch()
        self._stop = False

    # --- the loop ---------------------------------------------------------------------------------------------------------------

    def train(self) -> str:
        """Run to the last step; return `finished`, or `stopped` after a SIGTERM (a checkpoint is then saved)."""
        signal.signal(signal.SIGTERM, lambda *_: setattr(self, "_stop", True))
        self.resume()
        if not self.ranks.same(self.recipe.model.parameters()):
            raise SonorantError(
                f"rank {self.ranks.rank}: the ranks do not start from the same weights; remove {self.run.path} and start again"
            )
        log = MetricsLog(self.run.metrics) if self.ranks.first else None
        progress = Progress(self.recipe.name, self.config.steps, self.step, shown=self.ranks.first)
        frames = 0.0
        for micro_batches, batches in self.steps():
            taken = self.take_step(micro_batches, batches)
            frames += sum(self.recipe.units(batch)["frames"] for batch in micro_batches)
            if self.step % self.config.log_every == 0 or self.step == self.config.steps:
                row = self._row(self.ranks.sum(_floats(taken["losses"])), _floats(taken["norms"]), frames)
                frames = 0.0
                progress.show(self.step, row)
                if log:
                    log.write(self.step, row)
                self._refuse_divergence(taken["norms"])
            if self.step % self.config.validate_every == 0 or self.step == self.config.steps:
                row = self.validate()
                if log:
                    log.write(self.step, row)
                self.stopwatch.read()
                frames = 0.0
            self._guard()
            stop = self.ranks.any(self._stop)
            if stop or self.step % self.config.checkpoint_every == 0 or self.step == self.config.steps:
                self._refuse_divergence(taken["norms"])
                self.save()
            if stop:
                return "stopped"
        return "finished"

    def take_step(self, micro_batches: list[MicroBatch], batches: Iterator[Batch]) -> dict[str, dict[str, torch.Tensor]]:
        """One optimizer step over a global batch, of which this rank computes its share.

        Returns this rank's share of each loss and each phase's gradient norm, as tensors: reading them would make a GPU wait.
        """
        own = deal(micro_batches, self.ranks.rank, self.ranks.world_size)
        totals = _totals(self.recipe, micro_batches)
        learning_rate = self.config.learning_rate_at(self.step)
        for optimizer in self.optimizers.values():
            optimizer.zero_grad(set_to_none=True)
            for group in optimizer.param_groups:
                group["lr"] = learning_rate
        losses: dict[str, torch.Tensor] = {}
        for place, (micro_batch, weight) in enumerate(own):
            with self.stopwatch("data"):
                batch = {name: value.to(self.ranks.device, non_blocking=True) for name, value in next(batches).items()}
            torch.manual_seed(_seed(self.config.seed, micro_batch))
            for phase in self.recipe.phases:
                summed = self._accumulate(phase, batch, totals, weight, last=place == len(own) - 1)
                for name, value in summed.items():
                    share = value * (weight / totals[phase.terms[name].unit])
                    losses[name] = losses[name] + share if name in losses else share
        with self.stopwatch("optimizer"):
            norms = {phase.name: self._update(phase) for phase in self.recipe.phases}
            self.scaler.update()
            self.ema.update_parameters(self.recipe.model)
        self.step += 1
        self.step_in_epoch += 1
        return {"losses": losses, "norms": norms}

    def _accumulate(
        self, phase: Phase, batch: Batch, totals: dict[str, float], weight: float, last: bool
    ) -> dict[str, torch.Tensor]:
        wrapped = self.wrapped[phase.name]
        with contextlib.nullcontext() if last else wrapped.no_sync():
            with self.stopwatch("forward"), self._autocast():
                summed = wrapped(batch, self.step)
            # DDP averages over ranks; the global count is in `totals` already, so undo the average.
            loss = weighted(phase, summed, totals) * (weight * self.ranks.world_size)
            with self.stopwatch("backward"):
                self.scaler.scale(loss).backward()
        return {name: value.detach() for name, value in summed.items()}

    def _update(self, phase: Phase) -> torch.Tensor:
        optimizer = self.optimizers[phase.name]
        self.scaler.unscale_(optimizer)
        norm = nn.utils.clip_grad_norm_(phase.module.parameters(), self.config.clip_norm)
        self.scaler.step(optimizer)
        return norm

    def steps(self) -> Iterator[tuple[list[MicroBatch], Iterator[Batch]]]:
        """What is left of the plan, step by step: the global batch, and an iterator over this rank's tensors."""
        while self.step < self.config.steps:
            steps = self.recipe.plan.steps(self.epoch)[self.step_in_epoch :]
            own = [batch for step in steps for batch, _ in deal(step, self.ranks.rank, self.ranks.world_size)]
            batches = load(self.recipe.dataset(own), self.workers, pin=self.ranks.device.type == "cuda")
            for micro_batches in steps:
                yield micro_batches, batches
                if self.step >= self.config.steps:
                    return
            self.epoch, self.step_in_epoch = self.epoch + 1, 0

    # --- measuring --------------------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def validate(self) -> dict[str, float]:
        """Losses of the averaged weights on the validation split, a sample to look at, and the best checkpoint where it improved."""
        model = self.ema.module.eval()
        phase = self.recipe.losses(model)
        plan = self.recipe.validation()
        own = plan[self.ranks.rank :: self.ranks.world_size]
        totals = _totals(self.recipe, plan)
        losses = dict.fromkeys(phase.terms, 0.0)
        for micro_batch, batch in zip(own, load(self.recipe.dataset(own), 0, pin=False), strict=True):
            torch.manual_seed(_seed(self.config.seed, micro_batch))
            with self._autocast():
                summed = phase.module({name: value.to(self.ranks.device) for name, value in batch.items()}, self.step)
            for name, term in phase.terms.items():
                losses[name] += float(summed[name]) / totals[term.unit]
        losses = self.ranks.sum(losses)
        losses["loss"] = sum(term.weight * losses[name] for name, term in phase.terms.items())
        if losses["loss"] < self.best_loss:
            self.best_loss = losses["loss"]
            if self.ranks.first:
                checkpoint.save(
                    self.run.checkpoints / checkpoint.BEST, {"step": self.step, "loss": self.best_loss, "ema": model.state_dict()}
                )
        if self.ranks.first:
            with atomic_folder(self.run.samples / f"step-{self.step:06d}") as folder:  # MLflow is sent a sample once it is there
                self.recipe.write_sample(model, folder)
        return {f"validation/{name}": value for name, value in losses.items()}

    def _row(self, losses: dict[str, float], norms: dict[str, float], frames: float) -> dict[str, float]:
        wall, shares = self.stopwatch.read()
        row = {f"train/{name}": value for name, value in losses.items()}
        row["train/loss"] = sum(
            term.weight * losses[name] for phase in self.recipe.phases[:1] for name, term in phase.terms.items()
        )
        row |= {f"train/gradient_norm_{name}": value for name, value in norms.items()}
        row["train/learning_rate"] = self.config.learning_rate_at(self.step - 1)
        row["train/epoch"] = float(self.epoch)
        row["speed/audio_seconds_per_second"] = frames * self.recipe.seconds_per_frame / wall
        row |= {f"time/{phase}": share for phase, share in shares.items()}
        row["time/rest"] = max(0.0, 1.0 - sum(shares.values()))
        if self.ranks.device.type == "cuda":
            row["memory/peak_gib"] = torch.cuda.max_memory_allocated() / 2**30
        return row

    def _guard(self) -> None:
        if self.step % CHECK_EVERY == 0 and not self.ranks.same(self.recipe.model.parameters()):
            raise SonorantError(
                f"step {self.step}: rank {self.ranks.rank} on {self.ranks.device} no longer holds the same weights as the others; "
                "gradients were not averaged. Resume from the last checkpoint; if it happens again, this machine or its links are at fault"
            )

    def _refuse_divergence(self, norms: dict[str, torch.Tensor]) -> None:
        """Stop before weights that are no numbers reach a checkpoint. All ranks do, for the averaged gradient is the same on all."""
        if self.scaler.is_enabled():
            return  # it leaves such steps out and goes on with a smaller scale
        for name, norm in _floats(norms).items():
            if not math.isfinite(norm):
                raise SonorantError(
                    f"step {self.step}: training of the {name} has diverged (gradient norm {norm}); "
                    f"lower train_{self.recipe.name}.learning_rate"
                )

    # --- state ------------------------------------------------------------------------------------------------------------------

    def save(self) -> None:
        """Write a checkpoint (rank 0) and prune old ones."""
        if not self.ranks.first:
            return
        with self.stopwatch("checkpoint"):
            checkpoint.save(checkpoint.path_of(self.run.checkpoints, self.step), self.state())
            checkpoint.prune(self.run.checkpoints)
            self.run.write_status("running", self.step)

    def state(self) -> dict[str, Any]:
        """All that the next step depends on. No generator states: randomness comes from (seed, epoch, micro-batch)."""
        return {
            "fingerprint": self.fingerprint,
            "step": self.step,
            "epoch": self.epoch,
            "step_in_epoch": self.step_in_epoch,
            "best_loss": self.best_loss,
            "world_size": self.ranks.world_size,
            "phases": {phase.name: phase.module.state_dict() for phase in self.recipe.phases},
            "optimizers": {name: optimizer.state_dict() for name, optimizer in self.optimizers.items()},
            "ema": self.ema.state_dict(),
            "scaler": self.scaler.state_dict(),
        }

    def resume(self) -> None:
        """Continue from the newest whole checkpoint of this run directory, if there is one, and say so."""
        state = checkpoint.load_newest(self.run.checkpoints, self._say)
        if state is None:
            return
        if state["fingerprint"] != self.fingerprint:
            raise SonorantError(
                f"{self.run.path}: its checkpoint belongs to other settings, data or code; remove the folder or choose another"
            )
        for phase in self.recipe.phases:
            phase.module.load_state_dict(state["phases"][phase.name])
            self.optimizers[phase.name].load_state_dict(state["optimizers"][phase.name])
        self.ema.load_state_dict(state["ema"])
        self.scaler.load_state_dict(state["scaler"])
        self.step, self.epoch, self.step_in_epoch = state["step"], state["epoch"], state["step_in_epoch"]
        self.best_loss = state["best_loss"]
        if state["world_size"] != self.ranks.world_size:
            self._say(
                f"the checkpoint was written by {state['world_size']} ranks, now there are {self.ranks.world_size}: equal to rounding"
            )
        self._say(f"resuming {self.recipe.name} from its checkpoint at step {self.step} of {self.config.steps}")

    def _say(self, message: str) -> None:
        if self.ranks.first:
            print(message, flush=True)

    # --- parts ------------------------------------------------------------------------------------------------------------------

    def _distribute(self, module: nn.Module) -> DistributedDataParallel:
        # Without device_ids, with which it would hand the module a copy of the batch: phases pass tensors on in it (vocoder.FAKE).
        # Buffers are constants here: nothing to broadcast at every step.
        return DistributedDataParallel(module, forward_sync_buffers=False, gradient_as_bucket_view=True)

    def _optimizer(self, module: nn.Module) -> torch.optim.Optimizer:
        matrices = [parameter for parameter in module.parameters() if parameter.ndim >= 2]
        others = [parameter for parameter in module.parameters() if parameter.ndim < 2]
        groups = [{"params": matrices, "weight_decay": self.config.weight_decay}, {"params": others, "weight_decay": 0.0}]
        return torch.optim.AdamW(groups, lr=self.config.learning_rate, betas=(0.9, 0.98), fused=True)

    def _autocast(self) -> contextlib.AbstractContextManager[Any]:
        kinds = {"bf16": torch.bfloat16, "fp16": torch.float16}
        kind = kinds.get(self.config.precision)
        return torch.autocast(self.ranks.device.type, dtype=kind) if kind else contextlib.nullcontext()


def _floats(values: dict[str, torch.Tensor]) -> dict[str, float]:
    return {name: float(value) for name, value in values.items()}


def _totals(recipe: Recipe, micro_batches: list[MicroBatch]) -> dict[str, float]:
    counts = [recipe.units(batch) for batch in micro_batches]
    return {unit: sum(count[unit] for count in counts) for unit in counts[0]}


def _seed(seed: int, batch: MicroBatch) -> int:
    return hash((seed, batch.epoch, batch.number)) % 2**63
