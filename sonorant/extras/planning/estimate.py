"""What a training would take on GPUs that are not here: a bound, an expectation by an assumption that is named, and
which hardware is enough.

Counted work at published peaks; nothing of it was measured.
"""

import math
from dataclasses import dataclass
from typing import Any

from sonorant.extras.planning.hardware import Fleet, GpuModel
from sonorant.extras.planning.probe import Needs
from sonorant.training.worker import Job

SECONDS_AN_OPERATION = 5e-6
"""Seconds the host needs to issue an operation in eager mode: assumed; it bounds small models on a fast GPU."""
REACHED = 0.3
"""Share of the bound's speed that is expected: assumed. Large language models reach 0.21 to 0.46 of the tensor cores'
peak (Chowdhery et al. 2022, table 3); not compared with a training on a GPU yet."""
HIDING = 2 / 3
"""Share of a step's computing that can hide averaging: the backward pass, twice the forward's work."""


@dataclass(frozen=True, kw_only=True)
class StepTime:
    """Seconds of a step on a fleet, at the peaks."""

    arithmetic: float
    memory: float
    issuing: float
    averaging: float
    """Of the gradients, if nothing hid it."""

    @property
    def computing(self) -> float:
        """Arithmetic and traffic add up, as eager operations do one after the other, unless the host is slower."""
        return max(self.arithmetic + self.memory, self.issuing)

    @property
    def best(self) -> float:
        """With averaging hidden by the backward pass, but for its last bucket."""
        return self.computing + max(self.averaging - HIDING * self.computing, 0.0)

    @property
    def expected(self) -> float:
        """At the share of the peaks that is assumed, with averaging hidden as far as it can be."""
        computing = self.computing / REACHED
        return computing + max(self.averaging - HIDING * computing, 0.0)


def step_time(fleet: Fleet, needs: Needs, precision: str, micro_batches: int) -> StepTime:
    """A step of the same global batch on a fleet, split evenly over its GPUs.

    The roofline of Williams et al. 2009. Of the issued operations a GPU has those of its micro-batches, at least of
    one; its traffic shrinks with its share.
    """
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
    """The precision of the settings; `auto` takes the half precision that the GPU has."""
    wanted = str(job.train["precision"])
    return wanted if wanted != "auto" else "bf16" if gpu.bf16 else "fp16"


def largest_budget(gpu: GpuModel, job: Job, needs: Needs) -> int:
    """The largest micro-batch that fits into the GPU's memory, 0 if none does."""
    fixed = sum(size for part, size in needs.bytes.items() if part != "activations")
    room = job.machine.get("memory_share", 0.85) * gpu.memory - fixed
    return max(0, int(needs.budget * room / needs.bytes["activations"]))


def estimate(job: Job, needs: Needs, fleet: Fleet, steps: int, price: float | None) -> dict[str, Any]:
    """A step and the whole training on a fleet, as plain data. `price`: of an hour of one GPU."""
    gpu, precision = fleet.model, precision_on(fleet.model, job)
    time = step_time(fleet, needs, precision, job.train["micro_batches_per_step"])
    limits = {
        "arithmetic": time.arithmetic,
        "memory": time.memory,
        "issuing": time.issuing,
        "averaging": time.averaging,
    }
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
