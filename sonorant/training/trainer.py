"""Training loop for every model; a `Recipe` provides the model, its data and its losses."""

import math
import signal
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from sonorant.errors import SonorantError
from sonorant.features.batches import Batch, prefetched
from sonorant.features.plan import MicroBatch, shard
from sonorant.files import atomic_folder
from sonorant.training import checkpoint, memory
from sonorant.training.config import DataConfig, MachineConfig, loader_workers
from sonorant.training.distributed.proof import Proof
from sonorant.training.distributed.ranks import AllRanksError, Ranks
from sonorant.training.patience import Patience
from sonorant.training.precision import find_precision
from sonorant.training.recipe import Recipe, Tensors
from sonorant.training.run_directory import MetricsLog, RunDirectory
from sonorant.training.step import TrainStep
from sonorant.training.sub_batches import SubBatches
from sonorant.training.telemetry.loading import MeasuredDataset
from sonorant.training.telemetry.meter import Meter, floats
from sonorant.training.telemetry.profile import Profile
from sonorant.training.telemetry.stopwatch import Progress, Stopwatch
from sonorant.training.validation import one_by_one, validation_losses

STEPS_LOADED = 256
"""Number of steps loaded at a time: starting loader processes takes longer than a short epoch on a GPU."""
NAMED = 8
"""Maximum number of utterances that an error names."""
SMALLEST_SCALE = 1.0
"""Minimum scale of fp16's gradient scaler, which starts at 65536; below it, training has diverged."""


class Trainer:
    """Trains a recipe in a run directory until the last step, early stopping or a SIGTERM."""

    def __init__(
        self,
        recipe: Recipe,
        ranks: Ranks,
        run: RunDirectory,
        fingerprint: str,
        data: DataConfig | None = None,
        machine: MachineConfig | None = None,
        profile: str | None = None,
        provenance: dict[str, Any] | None = None,
    ) -> None:
        self.recipe, self.config, self.ranks, self.run = recipe, recipe.config, ranks, run
        self.fingerprint = fingerprint
        """Hash of settings and data that checkpoints must match."""
        self.provenance = provenance or {}
        self.data, self.machine = data or DataConfig(), machine or MachineConfig()
        self.stopwatch = Stopwatch(ranks.device)
        self.proof = Proof(recipe, ranks)
        self.proof.initial_weights()
        self.trained = TrainStep(recipe, ranks, self.stopwatch, SubBatches(ranks.name, run.sub_batches(ranks.rank)))
        self.meter = Meter(self.trained, loader_workers(self.data))
        self.profile = profile
        self.step = 0
        self.epoch, self.step_in_epoch = 0, 0
        self.best_loss = float("inf")
        self.patience = Patience(self.config.patience, recipe.name) if self.config.patience else None
        self.log: MetricsLog | None = None
        self._stop = False
        self._taken: list[tuple[int, list[MicroBatch], Tensors]] = []
        """Steps since the last look at their gradient norms, which waits for a GPU."""

    def train(self) -> str:
        """Train to the end and save; return `finished`, or `stopped` after a SIGTERM."""
        signal.signal(signal.SIGTERM, lambda *_: setattr(self, "_stop", True))
        for note in self.recipe.notes:
            self._say(note)
        with self.stopwatch("resume"):
            self._begin()
        if self.ranks.first:
            self.log = MetricsLog(self.run.metrics, self._say)
            self.run.write_status("running", self.step)
        progress = Progress(self.recipe.name, self.config.steps, self.step)
        if self.step == 0 and self.config.init_from:  # baseline for fine-tuning
            self._log(self.validate())
            self.meter.restart()
        started = self.step
        if not self.ended:
            self.proof.before_first_step(self.trained, self.step, self.epoch, self.step_in_epoch, self.load)
            self.meter.restart()
        profile = Profile(self.profile, self.run.path / "profile", self.ranks.rank, self.step, self.config.steps)
        asked = self.ranks.ask(self._stop)
        for micro_batches, batches in self.steps():
            losses, norms = self.take_step(micro_batches, batches)
            self._taken.append((self.step, micro_batches, norms))
            if not self.meter.on_gpu or self._due(self.config.log_every) or self._due(self.config.validate_every):
                self._refuse_divergence()
            profile.next()
            self.proof.ledger.note(self.trained.computed)
            if self._due(self.config.log_every):
                with self.stopwatch("logging"):
                    row = self.meter.read(self.step, self.epoch // self.recipe.plan.windows, losses, norms)
                    if self.ranks.first:
                        progress.show(self.step, row)
                    self._log(row)
            if self._due(self.config.validate_every):
                self._log(self.validate())
                self.meter.restart()
            with self.stopwatch("communication"):
                stop = asked()  # started in the previous step, so that no rank waits
            asked = self.ranks.ask(self._stop)
            saving = stop or self.ended or self._due(self.config.checkpoint_every)
            if saving or self.proof.due(self.step, started):
                with self.stopwatch("proof"):
                    self.proof.check(self.trained, self.step)
            if saving:
                self._refuse_divergence()
                self._return_to_best()
                self.save()
            if stop:
                break
        asked()
        profile.close()
        if self.why:
            self._say(f"{self.recipe.name}: {self.why}")
        return "finished" if self.ended else "stopped"

    def _begin(self) -> None:
        """Resume, and resolve `auto` precision and budget."""
        self.resume()
        if self.trained.precision is None:
            self._say(f"{self.recipe.name}: {find_precision(self.trained)}")
        budget = self.recipe.budget
        if budget is None:
            budget = memory.find_budget(self.trained, self.machine.memory_share)
            self._say(f"{self.recipe.name}: budget {budget} per micro-batch, the largest that fits into memory")
        self._say(f"{self.recipe.name}: {self.config.describe_learning_rate(budget)}")
        if self.patience:
            self.patience.check(len(self.validation_plan))

    @property
    def ended(self) -> bool:
        return self.step >= self.config.steps or bool(self.why)

    @property
    def why(self) -> str:
        """Reason for early stopping, or an empty string."""
        early = self.patience and self.patience.exhausted and self.step < self.config.steps
        return self.patience.why(self.step, self.config.steps) if self.patience and early else ""

    def _due(self, every: int) -> bool:
        return self.step % every == 0 or self.step == self.config.steps

    def _log(self, row: dict[str, float]) -> None:
        if self.log:
            self.log.write(self.step, row)

    def take_step(self, micro_batches: list[MicroBatch], batches: Iterator[Batch]) -> tuple[Tensors, Tensors]:
        taken = self.trained.take(self.step, micro_batches, batches)
        self.step += 1
        self.step_in_epoch += 1
        self.meter.count(micro_batches)
        return taken

    def steps(self) -> Iterator[tuple[list[MicroBatch], Iterator[Batch]]]:
        """Yield the global batch of each remaining step, and an iterator over this rank's tensors."""
        while not self.ended:
            ahead = self._epochs_ahead()
            self._fetch_ahead()
            batches = self.load([micro_batches for steps in ahead for micro_batches in steps])
            for steps in ahead:
                for micro_batches in steps:
                    yield micro_batches, batches
                    if self.ended:
                        return
                self.epoch, self.step_in_epoch = self.epoch + 1, 0

    def _epochs_ahead(self) -> list[list[list[MicroBatch]]]:
        """Return the steps to load together, by epoch: one window if the corpus is downloaded, otherwise `STEPS_LOADED`
        steps."""
        ahead = [self.recipe.plan.steps(self.epoch)[self.step_in_epoch :]]
        if self.recipe.plan.fetch is not None and self.recipe.store.fetches:
            return ahead
        wanted = min(STEPS_LOADED, self.config.steps - self.step)
        while sum(map(len, ahead)) < wanted:
            ahead.append(self.recipe.plan.steps(self.epoch + len(ahead)))
        return ahead

    def _fetch_ahead(self) -> None:
        fetch, number = self.recipe.plan.fetch, self.epoch + 1
        if fetch is None or not self.recipe.store.fetches:
            return

        def work() -> None:
            with suppress(SonorantError):  # reported again when it is read
                fetch(number)

        threading.Thread(target=work, name="fetch-ahead", daemon=True).start()

    def load(self, steps: list[list[MicroBatch]]) -> Iterator[Batch]:
        own = [batch for step in steps for batch, _ in shard(step, self.ranks.rank, self.ranks.world_size)]
        dataset = MeasuredDataset(self.recipe.dataset(own), self.recipe.store)
        fresh, pin = self.recipe.store.fetches, self.ranks.device.type == "cuda"
        batches = prefetched(dataset, loader_workers(self.data), pin=pin, fresh=fresh)
        return map(self.meter.cost.take, batches)

    def validate(self) -> dict[str, float]:
        """Validate the EMA; write a sample and, after an improvement, the best checkpoint."""
        plan = self.validation_plan
        with self.recipe.store.keeping():
            losses, own = validation_losses(self.trained, plan, self.step)
            if self.ranks.first:
                self._write_validated(losses["loss"])
        self.best_loss = min(self.best_loss, losses["loss"])
        judged = self._judge(own, len(plan)) if self.patience else {}
        return {f"validation/{name}": value for name, value in losses.items()} | judged

    def _write_validated(self, loss: float) -> None:
        model = self.trained.ema.module.eval()
        if loss < self.best_loss:
            best = {"step": self.step, "loss": loss, "ema": model.state_dict()}
            best["description"] = self.recipe.description()
            with self.stopwatch("checkpoint"):
                checkpoint.save(self.run.checkpoints / checkpoint.BEST, best)
        folder = self.run.samples / f"step-{self.step:06d}"
        with self.stopwatch("sample"), atomic_folder(folder) as unseen:  # atomic: the MLflow follower reads it
            self.recipe.write_sample(model, unseen)

    @property
    def validation_plan(self) -> list[MicroBatch]:
        """Validation micro-batches; with early stopping, each holds one utterance."""
        plan = self.recipe.validation()
        return one_by_one(plan) if self.patience else plan

    def _judge(self, own: list[float], count: int) -> dict[str, float]:
        assert self.patience is not None
        with self.stopwatch("communication"):
            by_rank = self.ranks.gather(own)
        losses = [by_rank[place % len(by_rank)][place // len(by_rank)] for place in range(count)]
        return self.patience.judge(self.step, losses)

    def _return_to_best(self) -> None:
        if not self.why or not self.ranks.first:
            return
        try:
            best = checkpoint.load(self.run.checkpoints / checkpoint.BEST)
        except checkpoint.DamagedCheckpoint as error:
            self._say(f"{error}; the model keeps the weights of step {self.step}")
            return
        self.trained.ema.module.load_state_dict(best["ema"])
        self._say(f"{self.recipe.name}: the model has the weights of step {best['step']}, whose loss was the lowest")

    def _refuse_divergence(self) -> None:
        """Raise AllRanksError at the first step whose gradients are not finite, before NaNs reach a validation or a
        checkpoint."""
        taken, self._taken = self._taken, []
        scaler = self.trained.scaler
        if scaler.is_enabled() and scaler.get_scale() >= SMALLEST_SCALE:
            return  # fp16 skips steps that overflow and lowers its scale
        for step, micro_batches, norms in taken:
            for name, norm in floats(norms).items():
                if not math.isfinite(norm):
                    raise self._diverged(step, micro_batches, f"{name} has diverged (gradient norm {norm})")

    def _diverged(self, step: int, micro_batches: list[MicroBatch], cause: str) -> AllRanksError:
        items = sorted({int(item) for batch in micro_batches for item in batch.items})
        named = ", ".join(self.recipe.store.ids[item] for item in items[:NAMED]) + " ..." * (len(items) > NAMED)
        rate = self.config.learning_rate_at(step - 1, self.recipe.budget)
        kept = next((path.name for path in checkpoint.existing(self.run.checkpoints)), "none")
        return AllRanksError(
            f"step {step}: training of the {cause} at learning rate {rate:.4g} with {len(items)} utterances ({named}); "
            f"last good checkpoint: {kept}; lower train_{self.recipe.name}.learning_rate, or use another precision; "
            "if it fails again with the same utterances, examine them"
        )

    def save(self) -> None:
        if not self.ranks.first:
            return
        with self.stopwatch("checkpoint"):
            if self.log:
                self.log.flush_to_disk()
            path = checkpoint.path_of(self.run.checkpoints, self.step)
            checkpoint.save(path, self.state())
            checkpoint.prune(self.run.checkpoints, path)
            self.run.write_status("running", self.step)

    def state(self) -> dict[str, Any]:
        return {
            "fingerprint": self.fingerprint,
            "provenance": self.provenance,
            "step": self.step,
            "epoch": self.epoch,
            "step_in_epoch": self.step_in_epoch,
            "best_loss": self.best_loss,
            "budget": self.recipe.budget,
            "precision": self.trained.precision,
            "description": self.recipe.description(),
            **({"patience": self.patience.state()} if self.patience else {}),
            **self.trained.state(),
        }

    def resume(self) -> None:
        with self.stopwatch("checkpoint"):
            newest = checkpoint.read_newest(self.run.checkpoints, self._say) if self.ranks.first else None
        with self.stopwatch("communication"):
            newest = self.ranks.share(newest)
        if newest is None:
            return
        state = checkpoint.parse(newest)
        if self.ranks.first:  # other ranks need no run directory
            self._check_origin(state)
        self.trained.set_precision(state["precision"])
        self.trained.load_state(state)
        self.step, self.epoch, self.step_in_epoch = state["step"], state["epoch"], state["step_in_epoch"]
        self.best_loss = state["best_loss"]
        if self.patience:
            self.patience.load_state(state["patience"])
        self.recipe.budget = state["budget"]
        self._say(f"resuming {self.recipe.name} from its checkpoint at step {self.step} of {self.config.steps}")

    def _check_origin(self, state: dict[str, Any]) -> None:
        """Raise SonorantError for a different run's checkpoint; report a change of code."""
        if state["fingerprint"] != self.fingerprint:
            raise SonorantError(f"{self.run.path}: contains a checkpoint of other settings or data; remove the folder")
        before, now = state.get("provenance") or self.run.provenance(), self.provenance
        ended = state["step"] >= self.config.steps or state.get("patience", {}).get("ended")
        if ended:  # the code that trained the model
            self.provenance = before or now
        elif before.get("code") != now.get("code"):
            self._say(f"{self.recipe.name}: resuming with other code: {_code(before)} before, {_code(now)} now")

    def _say(self, message: str) -> None:
        if self.ranks.first:
            print(message, flush=True)


def _code(provenance: dict[str, Any]) -> str:
    return f"commit {provenance.get('git_commit', 'unknown')[:12]}, code {provenance.get('code', 'unknown')}"
