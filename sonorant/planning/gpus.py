"""GPUs one may not have at hand, by their published peaks, and how long a step must at least take there. Measures nothing."""

from __future__ import annotations

from dataclasses import dataclass

from sonorant.errors import SonorantError
from sonorant.planning.work import Work

SECONDS_AN_OPERATION = 5e-6
"""What the host needs to issue one operation in eager mode: assumed, and what small models are bound by on a fast GPU."""


@dataclass(frozen=True, kw_only=True)
class Gpu:
    """Dense peaks, without sparsity."""

    fp32: float
    """FLOP/s outside tensor cores, which is what torch uses for fp32 unless told otherwise."""
    half: float
    """FLOP/s of tensor cores in bf16 (fp16 where there is no bf16), accumulated in fp32."""
    bandwidth: float
    """Bytes/s of its memory."""
    memory: float
    """Bytes."""
    watts: float
    """Board power, at most."""
    bf16: bool = True
    """Whether tensor cores take it."""
    source: str
    """The vendor's document."""


GPUS: dict[str, Gpu] = {
    "a100-80gb": Gpu(fp32=19.5e12, half=312e12, bandwidth=2039e9, memory=80e9, watts=400, source="NVIDIA A100 datasheet, SXM 80GB"),
    "h100": Gpu(fp32=67e12, half=989e12, bandwidth=3350e9, memory=80e9, watts=700, source="NVIDIA H100 datasheet, SXM"),
    "h200": Gpu(fp32=67e12, half=989e12, bandwidth=4800e9, memory=141e9, watts=700, source="NVIDIA H200 datasheet, SXM"),
    "l4": Gpu(fp32=30.3e12, half=121e12, bandwidth=300e9, memory=24e9, watts=72, source="NVIDIA L4 datasheet"),
    "t4": Gpu(fp32=8.1e12, half=65e12, bandwidth=300e9, memory=16e9, watts=70, bf16=False, source="NVIDIA T4 datasheet (fp16)"),
    "rtx4090": Gpu(
        fp32=82.6e12, half=165.2e12, bandwidth=1008e9, memory=24e9, watts=450, source="NVIDIA Ada GPU architecture whitepaper"
    ),
}


def gpu_named(name: str) -> Gpu:
    """Raises SonorantError naming those that are known."""
    if name not in GPUS:
        raise SonorantError(f"no GPU '{name}' is in the table; known: {', '.join(GPUS)}")
    return GPUS[name]


def least_seconds(gpu: Gpu, work: Work, precision: str) -> dict[str, float]:
    """Seconds that each of the three limits of `work` takes at its peak: arithmetic, memory traffic and issuing operations.

    After the roofline of Williams et al. 2009, arithmetic and traffic added up, since eager operations do one after the other.
    """
    peak = gpu.fp32 if precision == "fp32" else gpu.half
    return {
        "arithmetic": work.flops / peak,
        "memory": work.bytes / gpu.bandwidth,
        "issuing": work.operations * SECONDS_AN_OPERATION,
    }
