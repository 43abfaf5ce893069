"""Estimate the time of a training run on other GPUs from counted work and published peaks: a lower bound and an
expectation."""

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

from sonorant.extras.planning.hardware import Fleet, GpuModel
from sonorant.extras.planning.probe import Needs
from sonorant.extras.planning.work import Work
from sonorant.training.worker import Job

SECONDS_AN_OPERATION = 5e-6
"""Assumed seconds that the host takes to issue an operation in eager mode."""
REACHED = 0.3
"""Assumed fraction of peak speed in practice. Large language models reach 0.21 to 0.46 of the tensor cores' peak
(Chowdhery et al. 2022, table 3)."""
HIDING = 2 / 3
"""Fraction of computing that can overlap with averaging: the backward pass, which takes twice as long as the forward
pass."""


@dataclass(frozen=True, kw_only=True)
class StepTime:
    """Seconds of each part of a step at peak speed."""

    arithmetic: float
    memory: float
    issuing: float
    averaging: float
    """Time to average the gradients, without overlap."""

    @property
    def computing(self) -> float:
        """Time of arithmetic plus memory traffic (eager operations do not overlap), or the host's time if longer."""
        return max(self.arithmetic + self.memory, self.issuing)

    @property
    def best(self) -> float:
        """Time of a step at peak speed, with averaging overlapped as far as possible."""
        return self.computing + max(self.averaging - HIDING * self.computing, 0.0)

    @property
    def expected(self) -> float:
        """Time of a step at the assumed fraction of peak speed, with averaging overlapped as far as possible."""
        computing = self.computing / REACHED
        return computing + max(self.averaging - HIDING * computing, 0.0)


def step_time(fleet: Fleet, needs: Needs, precision: str, micro_batches: int) -> StepTime:
    """Return the time of a step with the global batch split evenly over the fleet (roofline, Williams et al. 2009)."""
    gpu, work = fleet.model, needs.work
    peak = gpu.fp32 if precision == "fp32" else gpu.half
    own = max(1, math.ceil(micro_batches / fleet.count)) / micro_batches
    return StepTime(
        arithmetic=work.flops / peak / fleet.count,
        memory=work.bytes / gpu.bandwidth / fleet.count,
        issuing=work.operations * own * SECONDS_AN_OPERATION,
        averaging=fleet.averaging(needs.bytes["gradients"]),
    )


def precision_on(gpu: GpuModel, job: Job) -> str:
    wanted = str(job.train["precision"])
    return wanted if wanted != "auto" else "bf16" if gpu.bf16 else "fp16"


def largest_budget(gpu: GpuModel, job: Job, needs: Needs) -> int:
    """Return the largest micro-batch that fits into the GPU's memory, or 0."""
    fixed = sum(needs.bytes.values()) - needs.bytes["activations"]
    room = job.machine.get("memory_share", 0.85) * gpu.memory - fixed
    return max(0, int(needs.budget * room / needs.bytes["activations"]))


def on_gpu(job: Job, needs: Needs, gpu: GpuModel, auto: bool) -> Needs:
    """Scale needs counted on the CPU to the micro-batch of the GPU: the largest that fits and the epoch allows if the
    size is `auto`."""
    largest = min(largest_budget(gpu, job, needs), needs.largest)
    times = largest / needs.budget if auto and largest else 1.0
    work = needs.work
    return replace(
        needs,
        budget=round(times * needs.budget),
        largest=largest,
        bounded=largest == needs.largest,
        work=Work(flops=int(times * work.flops), bytes=int(times * work.bytes), operations=work.operations),
        bytes=needs.bytes | {"activations": int(times * needs.bytes["activations"])},
    )


def estimate(job: Job, needs: Needs, fleet: Fleet, steps: int, price: float | None) -> dict[str, Any]:
    """Estimate the time and cost of training on a fleet. `price`: per GPU hour."""
    gpu, precision = fleet.model, precision_on(fleet.model, job)
    time = step_time(fleet, needs, precision, job.train["micro_batches_per_step"])
    limits = asdict(time)
    hours, expected = steps * time.best / 3600, steps * time.expected / 3600
    largest = largest_budget(gpu, job, needs)
    notes = (
        [] if precision != "bf16" or gpu.bf16 else ["this GPU's tensor cores do not support bf16: set precision: fp16"]
    )
    if fleet.count > job.train["micro_batches_per_step"]:
        notes.append(f"set micro_batches_per_step to {fleet.count} or a multiple, with smaller micro-batches")
    return {
        "kind": "estimate",
        "hardware": str(fleet),
        "source": gpu.source,
        "steps_per_second": 1 / time.best,
        "bound_by": max(limits, key=lambda limit: limits[limit]),
        "milliseconds_a_step": {limit: 1000 * value for limit, value in limits.items()},
        "largest_micro_batch": largest or "none fits into its memory",
        "hours": hours,
        "hours_expected": expected,
        "kwh_at_most": expected * gpu.watts * fleet.count / 1000,
        "cost": expected * price * fleet.count if price is not None else "not given: --price",
        "note": "; ".join(notes),
    }
