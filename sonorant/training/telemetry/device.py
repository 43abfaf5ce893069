"""What a rank's GPU does and lacks: its figures as metrics, and what of them is worth a word."""

import torch

from sonorant.training.telemetry.nvml import GpuLoad, NoNvml, Nvml

FRAGMENTED = 0.3
"""Share of the reserved memory that nothing ever used, above which it is worth a warning."""
IDLE = 50.0
"""Percent of the time in which a kernel ran, below which a training GPU counts as idle. NVML counts a moment with any
kernel, however small, so a GPU that is used well is above 90; half of that is money lost."""
FULL = 0.95
"""Share of the device's memory in use, by all processes, above which the next longer batch may not fit. CUDA's contexts
and NCCL's buffers grow by hundreds of MiB in the first steps; 5 % of 24 GB is 1.2 GB."""


class DeviceLoad:
    """Reads a GPU at this moment; silent on CPUs."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.missing: str | None = None
        """Why NVML could not be asked."""
        self.slowed: tuple[str, ...] = ()
        """Why the GPU's clocks were held down when it was last read, by heat or for want of power."""
        self._nvml: Nvml | None = None
        if device.type == "cuda":
            try:
                self._nvml = Nvml()
            except NoNvml as error:
                self.missing = str(error)

    def read(self) -> dict[str, float]:
        """Figures by name, those that are known.

        utilization (percent), temperature (Celsius), power (watts), clock (MHz), slowed (0 or 1), memory_gib (by all
        processes) and memory_share of the whole, reserved_gib (by torch), fragmentation (share of what is reserved).
        """
        if self.device.type != "cuda":
            return {}
        reserved, used = torch.cuda.max_memory_reserved(self.device), torch.cuda.max_memory_allocated(self.device)
        row = {"reserved_gib": reserved / 2**30, "fragmentation": 1.0 - used / reserved if reserved else 0.0}
        if self._nvml is not None:
            try:
                load = self._nvml.load(str(torch.cuda.get_device_properties(self.device).uuid))
            except NoNvml as error:
                self._nvml, self.missing = None, str(error)
                return row
            self.slowed = load.slowed or ()
            row |= figures_of(load)
        return row

    def findings(self, row: dict[str, float]) -> dict[str, str]:
        """What of a row of `read` is worth a word: kind to sentence."""
        found = {}
        if row.get("utilization", 100.0) < IDLE:
            remedy = "larger micro-batches, compile: true or what is named beside this would use it better"
            found["gpu idle"] = f"its GPU was busy for {row['utilization']:.0f}% of the time; {remedy}"
        if self.slowed:
            cooled = "look at its cooling, power supply and power limit (nvidia-smi -q -d PERFORMANCE)"
            at = f" at {row['temperature']:.0f} degrees" if "temperature" in row else ""
            found["gpu slowed"] = f"its GPU's clocks are held down{at} ({', '.join(self.slowed)}); {cooled}"
        if row.get("memory_share", 0.0) > FULL:
            remedy = "lower the micro-batch's budget, or look for another process on this GPU"
            found["gpu memory"] = f"{row['memory_share']:.0%} of its GPU's memory is in use; {remedy}"
        if row.get("fragmentation", 0.0) > FRAGMENTED:
            remedy = "(fragmentation); set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"
            reserved = f"the {row['reserved_gib']:.1f} GiB of reserved GPU memory"
            found["fragmentation"] = f"{row['fragmentation']:.0%} of {reserved} was never in use {remedy}"
        if self.missing:
            found["nvml"] = f"GPU utilization and temperature are not known: {self.missing}"
        return found


def figures_of(load: GpuLoad) -> dict[str, float]:
    """What NVML told of a GPU, in the units of `DeviceLoad.read`."""
    used, total = load.memory_used, load.memory_total
    known = {
        "utilization": load.utilization,
        "temperature": load.temperature,
        "power": load.power,
        "clock": load.clock,
        "slowed": None if load.slowed is None else float(bool(load.slowed)),
        "memory_gib": None if used is None else used / 2**30,
        "memory_share": None if used is None or not total else used / total,
    }
    return {name: value for name, value in known.items() if value is not None}
