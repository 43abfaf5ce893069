"""Metrics of the last steps: losses, speed, time per phase, load, memory."""

import sys
import time

from sonorant.features.plan import MicroBatch, shard
from sonorant.training import memory
from sonorant.training.recipe import Recipe, Tensors
from sonorant.training.step import TrainStep, totals_of
from sonorant.training.telemetry.device import DeviceLoad
from sonorant.training.telemetry.judgement import Judgement, Reading, judge
from sonorant.training.telemetry.loading import Cost, cause_of_waiting

DETAILED = 8
"""Maximum number of ranks with separate metrics; above it, only the mean is logged."""
WAITING = 0.02
"""Fraction of time waiting for data above which a warning is printed."""
NANOSECONDS = 1e-9


def mean_over_ranks(figures: list[dict[str, float]]) -> dict[str, float]:
    names = dict.fromkeys(name for row in figures for name in row)
    return {name: sum(row.get(name, 0.0) for row in figures) / len(figures) for name in names}


def own_loss(recipe: Recipe, shares: dict[str, float], step: list[MicroBatch], own: list[MicroBatch]) -> float | None:
    """Return a rank's loss over its micro-batches `own`, from its `shares` of the losses of global batch `step`; None
    if `own` is empty."""
    if not own:
        return None
    totals, counted = totals_of(recipe, step), totals_of(recipe, own)
    terms = [(name, term) for name, term in recipe.phases[0].terms.items() if name in shares]
    return sum(term.weight * shares[name] * totals[term.unit] / max(counted[term.unit], 1) for name, term in terms)


class Meter:
    """Collects a row of metrics, equal on all ranks, and warns of slow ranks."""

    def __init__(self, trained: TrainStep, workers: int) -> None:
        self.recipe, self.ranks, self.stopwatch = trained.recipe, trained.ranks, trained.stopwatch
        self.workers, self.cost = workers, Cost()
        self.load, self.judgement = DeviceLoad(self.ranks.device), Judgement()
        self.on_gpu, self.wrapped = self.ranks.device.type == "cuda", list(trained.wrapped.values())
        for module in self.wrapped:  # on a GPU, measuring waits for the previous step
            module._set_ddp_runtime_logging_sample_rate(self.recipe.config.log_every if self.on_gpu else 1)
        self._step: list[MicroBatch] = []
        self._forget()

    def count(self, micro_batches: list[MicroBatch]) -> None:
        self._step = micro_batches
        self.steps += 1
        if not self.on_gpu:
            self.exposed += self._exposed()
        for units in map(self.recipe.units, micro_batches):
            self.frames += units["frames"]
            self.padded += units["padded_frames"]
        self.own_frames += sum(self.recipe.units(micro_batch)["frames"] for micro_batch in self._own())

    def restart(self) -> None:
        """Reset measurements after time not spent on steps."""
        self.stopwatch.read()
        self._forget()

    def _forget(self) -> None:
        self.cost.reading = self.cost.transforming = 0.0
        self.frames = self.padded = self.own_frames = self.exposed = 0.0
        self.steps, self._worked = 0, time.process_time()

    def _own(self) -> list[MicroBatch]:
        return [batch for batch, weight in shard(self._step, self.ranks.rank, self.ranks.world_size) if weight]

    def _exposed(self) -> float:
        """Return the seconds of the previous step in which gradients were averaged without simultaneous computation."""
        data = [module._get_ddp_logging_data() for module in self.wrapped]
        names = "backward_comm_time", "backward_compute_comm_overlap_time"
        return sum(max(0.0, NANOSECONDS * (one.get(names[0], 0) - one.get(names[1], 0))) for one in data)

    def read(self, step: int, epoch: int, losses: Tensors, norms: Tensors) -> dict[str, float]:
        """Return a row of metrics, given this rank's share of the losses, and reset. A collective call."""
        added = floats(losses)
        summed = self.ranks.sum(added)
        wall, times = self._times()
        readings = self.ranks.gather(self._reading(times, added))
        row = {f"train/{name}": value for name, value in summed.items()}
        terms = self.recipe.phases[0].terms.items()
        row["train/loss"] = sum(term.weight * summed[name] for name, term in terms if name in summed)
        row |= {f"train/gradient_norm_{name}": value for name, value in floats(norms).items()}
        row["train/learning_rate"] = self.recipe.config.learning_rate_at(step - 1, self.recipe.budget)
        row["train/epoch"] = float(epoch)
        row["speed/audio_seconds_per_second"] = self.frames * self.recipe.seconds_per_frame / wall
        row["speed/core_seconds_per_step"] = sum(one.cores for one in readings) / max(self.steps, 1)
        row |= self._of_ranks(readings)
        if self.padded:
            row["batch/padding"] = 1.0 - self.frames / self.padded
        if self.recipe.budget is not None:
            row["batch/budget"] = float(self.recipe.budget)
        row["batch/learning_rate_factor"] = self.recipe.config.learning_rate_factor(self.recipe.budget)
        row["memory/peak_gib"] = memory.peak(self.ranks.device) / 2**30
        for line in self.judgement.take(judge(readings)):
            if self.ranks.first:
                print(line, file=sys.stderr, flush=True)
        self._forget()
        return row | self.judgement.row()

    def _times(self) -> tuple[float, dict[str, float]]:
        wall, shares = self.stopwatch.read()
        exposed = (self.steps * self._exposed() if self.on_gpu else self.exposed) / wall
        exposed = min(exposed, shares.get("backward", 0.0))
        if "backward" in shares:  # waiting for other ranks
            shares["backward"] -= exposed
        shares["communication"] = shares.get("communication", 0.0) + exposed
        shares["rest"] = max(0.0, 1.0 - sum(shares.values()))
        return wall, shares

    def _reading(self, times: dict[str, float], losses: dict[str, float]) -> Reading:
        load, waited = self.load.read(), times.get("data", 0.0)
        found = self.load.findings(load)
        if waited > WAITING:
            kind, sentence = cause_of_waiting(self.cost, self.workers)
            found[f"waiting for {kind}"] = f"{waited:.1%} of the steps' time was spent waiting for data. {sentence}"
        return Reading(
            host=self.ranks.host,
            times=times,
            frames=self.own_frames,
            load=load,
            loss=own_loss(self.recipe, losses, self._step, self._own()),
            cores=time.process_time() - self._worked,
            own=found,
        )

    def _of_ranks(self, readings: list[Reading]) -> dict[str, float]:
        row: dict[str, float] = {}
        for group, figures in ("time", [one.times for one in readings]), ("gpu", [one.load for one in readings]):
            row |= {f"{group}/{name}": value for name, value in mean_over_ranks(figures).items()}
            if 1 < len(readings) <= DETAILED:
                ranks = enumerate(figures)
                row |= {f"{group}/rank{rank}/{name}": value for rank, own in ranks for name, value in own.items()}
        if len(readings) > 1:
            # Not under `train/loss/`: in MLflow a metric cannot also be a folder.
            losses = {f"train/loss_by_rank/rank{rank}": one.loss for rank, one in enumerate(readings)}
            row |= {name: loss for name, loss in losses.items() if loss is not None}
        return row


def floats(values: Tensors) -> dict[str, float]:
    """Return scalar tensors as numbers; synchronises a GPU."""
    return {name: float(value) for name, value in values.items()}
