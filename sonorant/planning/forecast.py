"""From measurements to a forecast: time, energy, cost, advice, and a lower bound for GPUs that are not at hand.

What was not given or measured is a sentence, never a number.
"""

from dataclasses import asdict, dataclass
from typing import Any

from sonorant.errors import SonorantError
from sonorant.planning.probe import Needs, Speed
from sonorant.planning.work import Work
from sonorant.processes import usable_cores
from sonorant.training.worker import Job

SECONDS_AN_OPERATION = 5e-6
"""Seconds the host needs to issue an operation in eager mode: assumed; it bounds small models on a fast GPU."""
TITLES = {
    "parameters": "parameters",
    "memory_mib": "memory a process, MiB",
    "micro_batch": "micro-batch",
    "speed": "speed, measured here",
    "until_the_end": "until the last step",
    "work_a_step": "work a step, counted",
    "estimate": "ESTIMATE, at best",
}


@dataclass(frozen=True, kw_only=True)
class GpuModel:
    """Published peaks of a GPU, dense, without sparsity."""

    fp32: float
    """FLOP/s outside tensor cores, torch's default for fp32."""
    half: float
    """FLOP/s of tensor cores in bf16 (fp16 if there is no bf16), accumulated in fp32."""
    bandwidth: float
    """Bytes/s of its memory."""
    memory: float
    """Bytes."""
    watts: float
    """Highest board power."""
    bf16: bool = True
    """Whether tensor cores support it."""
    source: str
    """The vendor's document."""


GPUS: dict[str, GpuModel] = {
    "a100-80gb": GpuModel(fp32=19.5e12, half=312e12, bandwidth=2039e9, memory=80e9, watts=400,
                          source="NVIDIA A100 datasheet, SXM 80GB"),
    "h100": GpuModel(fp32=67e12, half=989e12, bandwidth=3350e9, memory=80e9, watts=700,
                     source="NVIDIA H100 datasheet, SXM"),
    "h200": GpuModel(fp32=67e12, half=989e12, bandwidth=4800e9, memory=141e9, watts=700,
                     source="NVIDIA H200 datasheet, SXM"),
    "l4": GpuModel(fp32=30.3e12, half=121e12, bandwidth=300e9, memory=24e9, watts=72,
                   source="NVIDIA L4 datasheet"),
    "t4": GpuModel(fp32=8.1e12, half=65e12, bandwidth=300e9, memory=16e9, watts=70, bf16=False,
                   source="NVIDIA T4 datasheet (fp16)"),
    "rtx4090": GpuModel(fp32=82.6e12, half=165.2e12, bandwidth=1008e9, memory=24e9, watts=450,
                        source="NVIDIA Ada GPU architecture whitepaper"),
}  # fmt: skip


def gpu_named(name: str) -> GpuModel:
    """A GPU of the table. Raises SonorantError listing those that are known."""
    if name not in GPUS:
        raise SonorantError(f"no GPU '{name}' is in the table; known: {', '.join(GPUS)}")
    return GPUS[name]


def least_seconds(gpu: GpuModel, work: Work, precision: str) -> dict[str, float]:
    """Seconds that each part of `work` takes at the GPU's peak: arithmetic, memory traffic, issuing operations.

    The roofline of Williams et al. 2009, but arithmetic and traffic add up, as eager operations do one after the other.
    """
    peak = gpu.fp32 if precision == "fp32" else gpu.half
    return {
        "arithmetic": work.flops / peak,
        "memory": work.bytes / gpu.bandwidth,
        "issuing": work.operations * SECONDS_AN_OPERATION,
    }


def forecast(
    job: Job, needs: Needs, speed: Speed, *, steps: int, price: float | None, watts: float | None, gpu: str | None
) -> dict[str, Any]:
    """Everything that `sonorant plan` reports, as plain data.

    Args:
        steps: optimizer steps to plan for.
        price: of an hour of the named GPU, or else of this machine, in any currency.
        watts: power that this machine draws.
        gpu: key of GPUS to estimate for as well.
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
    """The fastest step on a GPU of the table: a bound from counted work and published peaks, not a measurement."""
    gpu, precision = gpu_named(name), job.train["precision"]
    if precision == "auto":
        precision = "bf16" if gpu.bf16 else "fp16"
    limits = least_seconds(gpu, needs.work, precision)
    seconds = max(limits["arithmetic"] + limits["memory"], limits["issuing"])
    hours = steps * seconds / 3600
    fixed = sum(size for part, size in needs.bytes.items() if part != "activations")
    room = job.machine.get("memory_share", 0.85) * gpu.memory - fixed
    largest = int(needs.budget * room / needs.bytes["activations"])
    unsuited = "bf16 is not for this GPU's tensor cores: set precision: fp16"
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
        "note": unsuited if precision == "bf16" and not gpu.bf16 else "",
    }


def advice(job: Job, needs: Needs, speed: Speed) -> list[str]:
    """What would make this training faster or fit, by rules on what was measured."""
    on_gpu, train, section, cores = needs.device.type == "cuda", job.train, f"train_{job.recipe}", usable_cores()
    waiting, talking, updating = (speed.shares.get(phase, 0.0) for phase in ("data", "communication", "optimizer"))
    idle = cores - speed.processes
    found = []
    if train["precision"] == "fp32":
        found.append(f"{section}.precision: bf16 halves the activations and is faster wherever the processor has it")
    if waiting > 0.02:
        found.append(f"data.preload: memory, or more data.workers: {waiting:.0%} of a step waits for data")
    if talking > 0.2:
        more = f"more {section}.micro_batches_per_step, or larger ones"
        found.append(f"{more}: {talking:.0%} of a step is communication")
    if updating > 0.15:
        found.append(f"larger micro-batches: the optimizer takes {updating:.0%} of a step, whatever their size")
    if on_gpu and needs.largest > 1.5 * needs.budget:
        found.append(f"a larger micro-batch: {needs.largest} fits, {needs.budget} is set; a GPU is faster for it")
    if needs.bytes["activations"] > 0.5 * needs.allowed:
        found.append(f"{section}.activation_checkpointing: true, for activations take more than half of the memory")
    if on_gpu and not train["compile"]:
        found.append(f"{section}.compile: true joins what is bound by memory; it costs a minute at the start")
    if not on_gpu and idle > 0:
        found.append(f"{section}.micro_batches_per_step: {cores}, smaller ones: {idle} cores are idle")
    return found


def table(forecast: dict[str, Any]) -> str:
    """The forecast as aligned text, one block for each part, advice last."""
    lines = [f"plan of the {forecast['model']} model"]
    for part, title in TITLES.items():
        if part in forecast:
            lines += ["", title, *(f"  {name:<26}{value}" for name, value in _rows(forecast[part]))]
    return "\n".join([*lines, "", "what would help", *(f"  {line}" for line in forecast["would_help"])])


def _rows(values: dict[str, Any]) -> list[tuple[str, str]]:
    rows = []
    for name, value in values.items():
        parts = value.items() if isinstance(value, dict) else [("", value)]
        if value != "":
            shown = ", ".join(f"{key} {_short(part, name)}".lstrip() for key, part in parts)
            rows.append((name.replace("_", " "), shown))
    return rows


def _short(value: Any, name: str) -> str:
    if name == "shares":
        return f"{value:.1%}"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
