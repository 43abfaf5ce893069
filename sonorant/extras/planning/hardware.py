"""Published specifications of GPUs and links, and the time to average gradients."""

import math
from dataclasses import dataclass

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
    "pcie3": Link(bandwidth=15.75e9, latency=10e-6),
    "pcie4": Link(bandwidth=31.5e9, latency=10e-6),
    "ethernet-1g": Link(bandwidth=0.125e9, latency=50e-6),
    "ethernet-10g": Link(bandwidth=1.25e9, latency=30e-6),
    "ethernet-25g": Link(bandwidth=3.125e9, latency=30e-6),
    "ethernet-100g": Link(bandwidth=12.5e9, latency=20e-6),
    "infiniband-ndr": Link(bandwidth=50e9, latency=3e-6),
}
"""Links by name. Sources: NVIDIA's datasheets of V100 (300 GB/s in both directions together), A100 (600) and H100 (900)
for NVLink; PCI-SIG for 16 lanes of PCIe at 8 and 16 GT/s with 128b/130b; line rates of Ethernet and InfiniBand NDR."""
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
    """FLOP/s of tensor cores in bf16, or in fp16 without bf16."""
    bandwidth: float
    """Bytes/s of memory bandwidth."""
    memory: float
    watts: float
    """Maximum power in watts."""
    link: str
    """Key in LINKS of the link between GPUs in a machine."""
    bf16: bool = True
    """Whether tensor cores support bf16."""
    source: str


GPUS: dict[str, GpuModel] = {
    "v100": GpuModel(fp32=15.7e12, half=125e12, bandwidth=900e9, memory=32e9, watts=300, link="nvlink2", bf16=False,
                     source="NVIDIA V100 datasheet, SXM2 32GB (fp16)"),
    "a100-80gb": GpuModel(fp32=19.5e12, half=312e12, bandwidth=2039e9, memory=80e9, watts=400, link="nvlink3",
                          source="NVIDIA A100 datasheet, SXM 80GB"),
    "h100": GpuModel(fp32=67e12, half=989e12, bandwidth=3350e9, memory=80e9, watts=700, link="nvlink4",
                     source="NVIDIA H100 datasheet, SXM"),
    "h200": GpuModel(fp32=67e12, half=989e12, bandwidth=4800e9, memory=141e9, watts=700, link="nvlink4",
                     source="NVIDIA H200 datasheet, SXM"),
    "a6000": GpuModel(fp32=38.7e12, half=154.8e12, bandwidth=768e9, memory=48e9, watts=300, link="pcie4",
                      source="NVIDIA RTX A6000 datasheet and Ampere GA102 whitepaper (half of 309.7, with sparsity)"),
    "l4": GpuModel(fp32=30.3e12, half=121e12, bandwidth=300e9, memory=24e9, watts=72, link="pcie4",
                   source="NVIDIA L4 datasheet (half of 242, with sparsity)"),
    "t4": GpuModel(fp32=8.1e12, half=65e12, bandwidth=300e9, memory=16e9, watts=70, link="pcie3", bf16=False,
                   source="NVIDIA T4 datasheet (fp16)"),
    "rtx4090": GpuModel(fp32=82.6e12, half=165.2e12, bandwidth=1008e9, memory=24e9, watts=450, link="pcie4",
                        source="NVIDIA Ada GPU architecture whitepaper"),
}  # fmt: skip


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
