"""GPU load as metrics, and warnings about idle, throttled or full GPUs."""

import torch

from sonorant.training.telemetry.nvml import NoNvml, Nvml

IDLE = 50.0
"""Utilization in percent below which a GPU counts as idle; NVML reports above 90 for a well-used one."""
FULL = 0.95
"""Fraction of device memory in use above which a longer batch may not fit."""


class DeviceLoad:
    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.slowed: list[str] = []
        """Causes of throttling at the last reading."""
        self._nvml: Nvml | None = None
        if device.type == "cuda":
            try:
                self._nvml = Nvml()
            except NoNvml as error:
                print(f"GPU utilization and temperature are not logged: {error}", flush=True)

    def read(self) -> dict[str, float]:
        """Return the metrics of `Nvml.load`, and reserved_gib (memory reserved by torch)."""
        if self.device.type != "cuda":
            return {}
        row = {"reserved_gib": torch.cuda.max_memory_reserved(self.device) / 2**30}
        if self._nvml is not None:
            try:
                load, self.slowed = self._nvml.load(str(torch.cuda.get_device_properties(self.device).uuid))
                row |= load
            except NoNvml:
                self._nvml = None
        return row

    def findings(self, row: dict[str, float]) -> dict[str, str]:
        """Return warnings about a row from `read`, by kind of problem."""
        found = {}
        if row.get("utilization", 100.0) < IDLE:
            remedy = "use larger micro-batches or compile: true"
            found["gpu idle"] = f"its GPU was busy for {row['utilization']:.0f}% of the time; {remedy}"
        if self.slowed:
            cooled = "check its cooling, power supply and power limit (nvidia-smi -q -d PERFORMANCE)"
            found["gpu slowed"] = f"its GPU is throttled ({', '.join(self.slowed)}); {cooled}"
        if row.get("memory_share", 0.0) > FULL:
            remedy = "lower the micro-batch's budget, or check for another process on this GPU"
            found["gpu memory"] = f"{row['memory_share']:.0%} of its GPU's memory is in use; {remedy}"
        return found
