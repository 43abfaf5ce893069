"""Published specifications of GPUs and links, and the time to average gradients."""

import math
from dataclasses import dataclass
from pathlib import Path

from sonorant.files import read_json

BUCKET = 25 * 2**20
"""Bytes per all-reduce bucket, the default of DistributedDataParallel."""


@dataclass(frozen=True, kw_only=True)
class Link:
    bandwidth: float
    """Bytes/s in one direction, as published."""
    latency: float
    """Assumed seconds that an empty message takes."""


LINKS: dict[str, Link] = {
    "nvlink2": Link(bandwidth=150e9, latency=5e-6),
    "nvlink3": Link(bandwidth=300e9, latency=5e-6),
    "nvlink4": Link(bandwidth=450e9, latency=5e-6),
    "nvlink5": Link(bandwidth=900e9, latency=5e-6),
    "pcie3": Link(bandwidth=15.75e9, latency=10e-6),
    "pcie4": Link(bandwidth=31.5e9, latency=10e-6),
    "pcie5": Link(bandwidth=63e9, latency=10e-6),
    "ethernet-1g": Link(bandwidth=0.125e9, latency=50e-6),
    "ethernet-10g": Link(bandwidth=1.25e9, latency=30e-6),
    "ethernet-25g": Link(bandwidth=3.125e9, latency=30e-6),
    "ethernet-100g": Link(bandwidth=12.5e9, latency=20e-6),
    "infiniband-ndr": Link(bandwidth=50e9, latency=3e-6),
}
"""Links by name. Sources: NVIDIA's datasheets of V100 (300 GB/s in both directions together), A100 (600), H100 (900)
and B200 (1800) for NVLink; PCI-SIG for 16 lanes of PCIe at 8, 16 and 32 GT/s with 128b/130b; line rates of Ethernet and
InfiniBand NDR."""
BETWEEN = [name for name in LINKS if name.startswith(("ethernet", "infiniband"))]
"""Names of links between machines."""


def ring(n: int, size: float, link: Link) -> float:
    """Return the seconds to average `size` bytes in a ring of `n` ranks, bucket by bucket, without overlap: each rank
    sends 2 (n - 1) / n of the bytes and waits for 2 (n - 1) messages (Patarasuk and Yuan 2009)."""
    buckets = max(1, math.ceil(size / BUCKET))
    return 2 * (n - 1) / n * size / link.bandwidth + buckets * 2 * (n - 1) * link.latency


@dataclass(frozen=True, kw_only=True)
class GpuModel:
    """Published peak values of a GPU, without sparsity."""

    fp32: float
    """FLOP/s outside tensor cores."""
    half: float
    """FLOP/s of tensor cores with fp32 sums in bf16, or in fp16 without bf16."""
    bandwidth: float
    """Bytes/s of memory bandwidth."""
    memory: float
    watts: float
    """Maximum power in watts."""
    link: str
    """Key in LINKS of the link between GPUs in a machine."""
    bf16: bool
    """Whether tensor cores support bf16."""
    source: str


GPUS = {name: GpuModel(**row) for name, row in read_json(Path(__file__).with_name("gpus.json")).items()}
"""NVIDIA's GPUs since Turing, and the V100."""


@dataclass(frozen=True, kw_only=True)
class Fleet:
    """Identical machines with GPUs of one model."""

    gpu: str
    """Key in GPUS."""
    gpus: int = 1
    """GPUs per machine."""
    machines: int = 1
    link: str = "ethernet-10g"
    """Name of the link between machines, from BETWEEN."""

    @property
    def model(self) -> GpuModel:
        return GPUS[self.gpu]

    @property
    def count(self) -> int:
        return self.gpus * self.machines

    def __str__(self) -> str:
        inside = f"{self.gpus} x {self.gpu}"
        return inside if self.machines == 1 else f"{self.machines} machines of {inside} over {self.link}"

    def averaging(self, size: float) -> float:
        """Return the seconds to average `size` bytes within machines, then between them."""
        return ring(self.gpus, size, LINKS[self.model.link]) + ring(self.machines, size, LINKS[self.link])
