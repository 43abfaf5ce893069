"""Forecast a training run on this machine from measurements. Unknown values are text, not numbers."""

import math
from dataclasses import asdict
from typing import Any

from sonorant.extras.planning.probe import Needs, Speed
from sonorant.plugins import model_kind
from sonorant.processes import usable_cores
from sonorant.training.worker import Job

TITLES = {
    "parameters": "parameters",
    "memory_mib": "memory per process, MiB",
    "micro_batch": "micro-batch",
    "speed": "speed, measured here",
    "until_the_end": "until the last step",
    "work_a_step": "work per step, counted",
    "estimate": "ESTIMATE for other hardware",
}


def forecast(
    job: Job, needs: Needs, speed: Speed, *, steps: int, price: float | None, watts: float | None
) -> dict[str, Any]:
    """Return a report for this machine. `price`: per hour; `watts`: power draw."""
    parts = seconds_of(job, speed, steps)
    hours = sum(parts.values()) / 3600
    return sizes(job, needs) | {
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
            "seconds": parts,
            "kwh": hours * watts / 1000 if watts is not None else "not given: --watts",
            "cost": hours * price if price is not None else "not given: --price",
        },
        "would_help": advice(job, needs, speed) or ["no suggestions"],
    }


def sizes(job: Job, needs: Needs) -> dict[str, Any]:
    """Return the part of a report that no measurement of speed needs."""
    config = model_kind(job.recipe).settings()(**job.train)
    return {
        "model": job.recipe,
        "parameters": {**needs.parameters, "all": sum(needs.parameters.values())},
        "memory_mib": {name: size / 2**20 for name, size in {**needs.bytes, "all": sum(needs.bytes.values())}.items()},
        "micro_batch": {
            "budget": needs.budget,
            "largest": needs.largest,
            "largest_is_bounded_by": "the steps of an epoch" if needs.bounded else "memory",
            "memory_allowed_mib": needs.allowed / 2**20,
            "learning_rate": config.learning_rate * config.learning_rate_factor(needs.budget),
        },
        "work_a_step": asdict(needs.work),
    }


def seconds_of(job: Job, speed: Speed, steps: int) -> dict[str, float]:

    times = {"validate_every": speed.validation, "checkpoint_every": speed.checkpoint}
    often = {every: math.ceil(steps / job.train[every]) for every in times}  # both also run at the last step
    return {
        "steps": steps * speed.seconds_per_step,
        "validations": often["validate_every"] * times["validate_every"],
        "checkpoints": often["checkpoint_every"] * times["checkpoint_every"],
        "start": speed.start,
    }


def advice(job: Job, needs: Needs, speed: Speed) -> list[str]:
    on_gpu, train, section, cores = needs.device.type == "cuda", job.train, f"train_{job.recipe}", usable_cores()
    waiting, talking, updating = (speed.shares.get(phase, 0.0) for phase in ("data", "communication", "optimizer"))
    idle = cores - speed.processes
    found = []
    if train["precision"] == "fp32":
        found.append(f"{section}.precision: bf16 halves the activations and is faster if the processor supports it")
    if waiting > 0.02:
        found.append(f"data.preload: memory, or more data.workers: {waiting:.0%} of a step is spent waiting for data")
    if talking > 0.2:
        more = f"more {section}.micro_batches_per_step, or larger ones"
        found.append(f"{more}: {talking:.0%} of a step is communication")
    if updating > 0.15:
        found.append(f"larger micro-batches: the optimizer takes {updating:.0%} of a step, whatever their size")
    if on_gpu and needs.largest > 1.5 * needs.budget:
        found.append(
            f"a larger micro-batch: {needs.largest} fits, {needs.budget} is set; GPUs are faster with larger ones"
        )
    if needs.bytes["activations"] > 0.5 * needs.allowed:
        found.append(f"{section}.activation_checkpointing: true, as activations take more than half of the memory")
    if on_gpu and not train["compile"]:
        found.append(f"{section}.compile: true fuses operations bound by memory; it takes a minute at the start")
    if not on_gpu and idle > 0:
        found.append(f"{section}.micro_batches_per_step: {cores}, smaller ones: {idle} cores are idle")
    return found


def table(forecast: dict[str, Any]) -> str:
    lines = [f"plan of the {forecast['model']} model"]
    for part, title in TITLES.items():
        if part in forecast:
            lines += ["", title, *(f"  {name:<26}{value}" for name, value in _rows(forecast[part]))]
    if help := forecast.get("would_help"):
        lines += ["", "what would help", *(f"  {line}" for line in help)]
    return "\n".join(lines)


def _rows(values: dict[str, Any]) -> list[tuple[str, str]]:
    rows = []
    for name, value in values.items():
        parts = value.items() if isinstance(value, dict) else [("", value)]
        if value != "":
            rows.append(
                (name.replace("_", " "), ", ".join(f"{key} {_short(part, name)}".lstrip() for key, part in parts))
            )
    return rows


def _short(value: Any, name: str) -> str:
    if name == "shares":
        return f"{value:.1%}"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
