"""What a rank's GPU says of itself while it trains: use, memory, fragmentation, temperature. Knows nothing of steps; silent on CPUs."""

from __future__ import annotations

import torch

from sonorant.gpu import NoNvml, Nvml

FRAGMENTED = 0.3
"""Share of the reserved memory that nothing ever used, above which it is worth a warning."""


class DeviceLoad:
    """Reads a device at this moment."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.missing: str | None = None
        """Why NVML could not be asked."""
        self._nvml: Nvml | None = None
        if device.type == "cuda":
            try:
                self._nvml = Nvml()
            except NoNvml as error:
                self.missing = str(error)

    def read(self) -> dict[str, float]:
        """Utilization in percent, temperature in degrees Celsius, power in watts, memory in GiB and fragmentation; only what is known."""
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
            memory = None if load.memory_used is None else load.memory_used / 2**30
            told = {"utilization": load.utilization, "temperature": load.temperature, "power": load.power, "memory_gib": memory}
            row |= {name: value for name, value in told.items() if value is not None}
        return row


def fragmentation_warning(row: dict[str, float]) -> str | None:
    """What to say of a row of `DeviceLoad.read`, if it is worth a warning."""
    if row.get("fragmentation", 0.0) <= FRAGMENTED:
        return None
    return (
        f"{row['fragmentation']:.0%} of the {row['reserved_gib']:.1f} GiB of reserved GPU memory was never in use (fragmentation); "
        "set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"
    )
