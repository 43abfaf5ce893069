"""Estimate a training on other GPUs from counted work and published peaks: a bound, and an expected time."""

import math
from dataclasses import asdict, dataclass
from typing import Any

from sonorant.extras.planning.hardware import Fleet, GpuModel
from sonorant.extras.planning.probe import Needs
from sonorant.training.worker import Job

SECONDS_AN_OPERATION = 5e-6
"""Host seconds to issue an operation in eager mode: assumed."""
REACHED = 0.3
"""Expected share of the bound's speed: assumed. Large language models reach 0.21 to 0.46 of the tensor cores' peak
(Chowdhery et al. 2022, table 3)."""
HIDING = 2 / 3
"""Share of a step's computing that can hide averaging: the backward pass, twice the forward."""


@dataclass(frozen=True, kw_only=True)
class StepTime:
    """Seconds of a step at peak speed."""

    arithmetic: float
    memory: float
    issuing: float
    averaging: float
    """Of the gradients, without overlap."""

    @property
    def computing(self) -> float:
        """Arithmetic plus traffic (eager operations are sequential), or the host's time if longer."""
        return max(self.arithmetic + self.memory, self.issuing)

    @property
    def best(self) -> float:
        """With averaging hidden behind the backward pass as far as possible."""
        return self.computing + max(self.averaging - HIDING * self.computing, 0.0)

    @property
    def expected(self) -> float:
        """At the assumed share of peak, with averaging overlapped."""
        computing = self.computing / REACHED
        return computing + max(self.averaging - HIDING * computing, 0.0)


def step_time(fleet: Fleet, needs: Needs, precision: str, micro_batches: int) -> StepTime:
    """Time of a step of the same global batch, split evenly over the fleet's GPUs (roofline, Williams et al. 2009)."""
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
    """Precision of the settings; `auto` is the GPU's half precision."""
    wanted = str(job.train["precision"])
    return wanted if wanted != "auto" else "bf16" if gpu.bf16 else "fp16"


def largest_budget(gpu: GpuModel, job: Job, needs: Needs) -> int:
    """Largest micro-batch that fits into the GPU's memory, 0 if none."""
    fixed = sum(needs.bytes.values()) - needs.bytes["activations"]
    room = job.machine.get("memory_share", 0.85) * gpu.memory - fixed
    return max(0, int(needs.budget * room / needs.bytes["activations"]))


def estimate(job: Job, needs: Needs, fleet: Fleet, steps: int, price: float | None) -> dict[str, Any]:
    """Report on a fleet. `price`: per GPU hour."""
    gpu, precision = fleet.model, precision_on(fleet.model, job)
    time = step_time(fleet, needs, precision, job.train["micro_batches_per_step"])
    limits = asdict(time)
    hours, expected = steps * time.best / 3600, steps * time.expected / 3600
    largest = largest_budget(gpu, job, needs)
    notes = [] if precision != "bf16" or gpu.bf16 else ["bf16 is not for this GPU's tensor cores: set precision: fp16"]
    if fleet.count > job.train["micro_batches_per_step"]:
        notes.append(f"set micro_batches_per_step to {fleet.count} or a multiple, with smaller micro-batches")
    return {
        "kind": "estimate",
        "hardware": str(fleet),
        "source": gpu.source,
        "steps_per_second": 1 / time.best,
        "bound_by": max(limits, key=lambda limit: limits[limit]),
        "milliseconds_a_step": {limit: 1000 * value for limit, value in limits.items()},
        "largest_micro_batch": largest or "none: does not fit into its memory",
        "hours": hours,
        "hours_expected": expected,
        "kwh_at_most": expected * gpu.watts * fleet.count / 1000,
        "cost": expected * price * fleet.count if price is not None else "not given: --price",
        "note": "; ".join(notes),
    }
