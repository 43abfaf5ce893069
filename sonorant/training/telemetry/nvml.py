"""Read GPU state from NVIDIA's NVML, which ignores CUDA_VISIBLE_DEVICES; GPUs are named by UUID."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any


class NoNvml(Exception):
    """NVML is not available; the message is the reason."""


SLOWED = {
    0x08: "hardware slowdown",
    0x20: "heat, by the driver",
    0x40: "heat, by the hardware",
    0x80: "power supply, by the hardware",
}
"""Faults among NVML's clocks event reasons (`nvml.h`, nvmlClocksEventReasons). The power cap (0x04) is not a fault: a
well-used GPU reaches it."""


class Nvml:
    """NVML session, closed by `with`. Raises NoNvml without a driver, a GPU or nvidia-ml-py."""

    def __init__(self) -> None:
        try:
            import pynvml
        except ModuleNotFoundError:
            raise NoNvml("nvidia-ml-py is not installed") from None
        self._library = pynvml
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError_LibraryNotFound:
            raise NoNvml("no NVIDIA driver here (libnvidia-ml.so.1)") from None
        except pynvml.NVMLError as error:
            raise NoNvml(f"cannot start NVML: {error}") from None

    def __enter__(self) -> Nvml:
        return self

    def __exit__(self, *_: object) -> None:
        self._library.nvmlShutdown()

    @property
    def driver(self) -> str:
        return str(self._library.nvmlSystemGetDriverVersion())

    def uuids(self) -> list[str]:
        """Return all GPUs' UUIDs in PCI bus order. Raises NoNvml if one does not respond."""
        ask = self._library
        try:
            gpus = map(ask.nvmlDeviceGetHandleByIndex, range(ask.nvmlDeviceGetCount()))
            return [str(ask.nvmlDeviceGetUUID(gpu)) for gpu in gpus]
        except ask.NVMLError as error:
            raise NoNvml(f"a GPU does not respond: {error}") from None

    def load(self, uuid: str) -> tuple[dict[str, float], list[str]]:
        """Return the reported load of a GPU, and causes of throttling. Raises NoNvml for an unknown GPU.

        Keys: utilization (percent), temperature (Celsius), power (watts), clock (MHz of its multiprocessors), slowed (0
        or 1), memory_gib (of all processes) and memory_share (fraction in use). torch omits the UUID's prefix.
        """
        ask, gpu = self._library, self._handle(uuid)
        questions: dict[str, Callable[[], float]] = {
            "utilization": lambda: ask.nvmlDeviceGetUtilizationRates(gpu).gpu,
            "temperature": lambda: ask.nvmlDeviceGetTemperature(gpu, ask.NVML_TEMPERATURE_GPU),
            "power": lambda: ask.nvmlDeviceGetPowerUsage(gpu) / 1000,
            "clock": lambda: ask.nvmlDeviceGetClockInfo(gpu, ask.NVML_CLOCK_SM),
            "slowed": lambda: ask.nvmlDeviceGetCurrentClocksThrottleReasons(gpu),  # old drivers support this name too
            "memory_gib": lambda: ask.nvmlDeviceGetMemoryInfo(gpu).used / 2**30,
            "memory_share": lambda: ask.nvmlDeviceGetMemoryInfo(gpu).used / ask.nvmlDeviceGetMemoryInfo(gpu).total,
        }
        found: dict[str, float] = {}
        for name, question in questions.items():
            with suppress(ask.NVMLError):
                found[name] = float(question())
        causes = [cause for bit, cause in SLOWED.items() if int(found.get("slowed", 0)) & bit]
        return found | ({"slowed": float(bool(causes))} if "slowed" in found else {}), causes

    def _handle(self, uuid: str) -> Any:
        for prefix in ("", "GPU-", "MIG-"):
            with suppress(self._library.NVMLError):
                return self._library.nvmlDeviceGetHandleByUUID(prefix + uuid)
        raise NoNvml(f"NVML has no GPU {uuid}")
