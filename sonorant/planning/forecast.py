"""From what was measured to what to expect: time, energy, cost, and what would help. What was not given or measured is no number."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import Any

from sonorant.planning.gpus import gpu_named, least_seconds
from sonorant.planning.probe import Needs, Speed
from sonorant.training.worker import Job


def forecast(
    job: Job, needs: Needs, speed: Speed, *, steps: int, price: float | None, watts: float | None, gpu: str | None
) -> dict[str, Any]:
    """All that `sonorant plan` says, as plain data.

    Args:
        steps: optimizer steps to plan for.
        price: of an hour of the named GPU, without one of this machine, in any currency.
        watts: what this machine draws.
        gpu: a key of GPUS to estimate for besides.
    """
    hours = steps * speed.seconds_per_step / 3600
    return {
        "model": job.recipe,
        "parameters": {**needs.parameters, "all": sum(needs.parameters.values())},
        "memory_mib": {name: size / 2**20 for name, size in {**needs.bytes, "all": sum(needs.bytes.values())}.items()},
        "micro_batch": {
            "budget": needs.budget,
            "largest": needs.largest,
            "largest_is_bounded_by": "the steps of an epoch" if needs.bounded else "memory",
            "memory_allowed_mib": needs.allowed / 2**20,
        },
        "speed": {
            "device": str(needs.device),
            "processes": speed.processes,
            "steps_per_second": 1 / speed.seconds_per_step,
            "audio_seconds_per_second": needs.frames_a_step * needs.seconds_per_frame / speed.seconds_per_step,
            "shares": speed.shares,
        },
        "until_the_end": {
            "steps": steps,
            "hours": hours,
            "kwh": hours * watts / 1000 if watts is not None else "not given: --watts",
            "cost": hours * price if price is not None and gpu is None else "not given: --price",
        },
        "work_a_step": asdict(needs.work),
        "would_help": advice(job, needs, speed) or ["nothing that these rules know"],
        **({"estimate": estimate(job, needs, gpu, steps, price)} if gpu else {}),
    }


def estimate(job: Job, needs: Needs, name: str, steps: int, price: float | None) -> dict[str, Any]:
    """A step on one GPU of the table, at best: a bound from counted work and published peaks, not a measurement."""
    gpu, precision = gpu_named(name), job.train["precision"]
    limits = least_seconds(gpu, needs.work, precision)
    seconds = max(limits["arithmetic"] + limits["memory"], limits["issuing"])
    hours = steps * seconds / 3600
    fixed = sum(size for part, size in needs.bytes.items() if part != "activations")
    room = job.machine.get("memory_share", 0.85) * gpu.memory - fixed
    largest = int(needs.budget * room / needs.bytes["activations"])
    return {
        "kind": "estimate",
        "gpu": name,
        "source": gpu.source,
        "steps_per_second": 1 / seconds,
        "bound_by": max(limits, key=lambda limit: limits[limit]),
        "milliseconds_a_step": {limit: 1000 * value for limit, value in limits.items()},
        "largest_micro_batch": largest if largest > 0 else "none: does not fit into its memory",
        "hours": hours,
        "kwh_at_most": hours * gpu.watts / 1000,
        "cost": hours * price if price is not None else "not given: --price",
        "note": "bf16 is not for this GPU's tensor cores: set precision: fp16" if precision == "bf16" and not gpu.bf16 else "",
    }


def advice(job: Job, needs: Needs, speed: Speed) -> list[str]:
    """What would make this training faster or fit, by rule from what was measured."""
    on_gpu, train = needs.device.type == "cuda", job.train
    section, shares = f"train_{job.recipe}", speed.shares
    found = []
    if train["precision"] == "fp32":
        found.append(f"{section}.precision: bf16 halves what activations take and is faster wherever the processor has it")
    if shares.get("data", 0.0) > 0.02:
        found.append(f"data.preload: memory, or more data.workers: {shares['data']:.0%} of a step waits for data")
    if shares.get("communication", 0.0) > 0.2:
        found.append(
            f"more {section}.micro_batches_per_step, or larger ones: {shares['communication']:.0%} of a step is communication"
        )
    if shares.get("optimizer", 0.0) > 0.15:
        found.append(f"larger micro-batches: the optimizer takes {shares['optimizer']:.0%} of a step, whatever their size")
    if on_gpu and needs.largest > 1.5 * needs.budget:
        found.append(f"a larger micro-batch: {needs.largest} fits, {needs.budget} is set; a GPU is faster for it")
    if needs.bytes["activations"] > 0.5 * needs.allowed:
        found.append(f"{section}.activation_checkpointing: true, for activations take more than half of the memory")
    if on_gpu and not train["compile"]:
        found.append(f"{section}.compile: true joins what is bound by memory; it costs a minute at the start")
    cores = len(os.sched_getaffinity(0))
    if not on_gpu and speed.processes < cores:
        found.append(f"{section}.micro_batches_per_step: {cores}, smaller ones: {cores - speed.processes} cores have nothing to do")
    return found
