"""GPUs by NVIDIA's management library (NVML), which ignores CUDA_VISIBLE_DEVICES; a process finds its own by UUID."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any


class NoNvml(Exception):
    """NVML is not available; the message is the reason."""


SLOWED = {
    0x08: "hardware slowdown",
    0x20: "heat, by the driver",
    0x40: "heat, by the hardware",
    0x80: "power supply, by the hardware",
}
"""Faults among NVML's clocks event reasons (`nvml.h`, nvmlClocksEventReasons); a well-used GPU reaches its power cap
(0x04)."""


@dataclass(frozen=True, kw_only=True)
class Gpu:
    """Properties of a GPU that do not change in use. None: the GPU or its driver does not report it."""

    index: int
    """NVML's, by PCI bus; CUDA may number differently."""
    uuid: str
    """`GPU-` and 36 characters."""
    name: str
    memory: int | None
    """Bytes in total; also None where the GPU shares the machine's memory."""


@dataclass(frozen=True, kw_only=True)
class GpuLoad:
    """The load of a GPU now. None: the GPU or its driver does not report it."""

    utilization: float | None
    """Percent of the last fraction of a second in which a kernel ran."""
    memory_used: int | None
    """Bytes, by all processes."""
    temperature: float | None
    """Degrees Celsius."""
    power: float | None
    """Watts."""
    memory_total: int | None
    """Bytes."""
    clock: float | None
    """MHz of its streaming multiprocessors."""
    slowed: tuple[str, ...] | None
    """Causes of throttling, names of SLOWED."""


class Nvml:
    """An open NVML; `with` closes it. Raises NoNvml without a driver, a GPU or nvidia-ml-py."""

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
            raise NoNvml(f"NVML does not start: {error}") from None

    def __enter__(self) -> Nvml:
        return self

    def __exit__(self, *_: object) -> None:
        self._library.nvmlShutdown()

    @property
    def driver(self) -> str:
        """Version of the driver, such as 580.65.06."""
        return str(self._library.nvmlSystemGetDriverVersion())

    @property
    def cuda(self) -> tuple[int, int]:
        """The newest CUDA that the driver runs (major, minor)."""
        version = self._library.nvmlSystemGetCudaDriverVersion_v2()
        return version // 1000, version % 1000 // 10

    def gpus(self) -> list[Gpu]:
        """All GPUs of the machine. Raises NoNvml if one does not answer."""
        try:
            return [self._gpu(index) for index in range(self._library.nvmlDeviceGetCount())]
        except self._library.NVMLError as error:
            raise NoNvml(f"a GPU does not answer: {error}") from None

    def load(self, uuid: str) -> GpuLoad:
        """Load of the GPU or instance with this UUID; its prefix, which torch omits, is optional. Raises NoNvml."""
        ask, handle = self._library, self._handle(uuid)
        milliwatts = self._told(lambda: ask.nvmlDeviceGetPowerUsage(handle))
        memory = self._told(lambda: ask.nvmlDeviceGetMemoryInfo(handle))
        reasons = self._told(lambda: ask.nvmlDeviceGetCurrentClocksThrottleReasons(handle))  # old drivers have it too
        return GpuLoad(
            utilization=self._told(lambda: float(ask.nvmlDeviceGetUtilizationRates(handle).gpu)),
            memory_used=None if memory is None else int(memory.used),
            memory_total=None if memory is None else int(memory.total),
            clock=self._told(lambda: float(ask.nvmlDeviceGetClockInfo(handle, ask.NVML_CLOCK_SM))),
            slowed=None if reasons is None else tuple(name for bit, name in SLOWED.items() if reasons & bit),
            temperature=self._told(lambda: float(ask.nvmlDeviceGetTemperature(handle, ask.NVML_TEMPERATURE_GPU))),
            power=None if milliwatts is None else milliwatts / 1000,
        )

    def _gpu(self, index: int) -> Gpu:
        ask = self._library
        handle = ask.nvmlDeviceGetHandleByIndex(index)
        return Gpu(
            index=index,
            uuid=str(ask.nvmlDeviceGetUUID(handle)),
            name=str(ask.nvmlDeviceGetName(handle)),
            memory=self._told(lambda: int(ask.nvmlDeviceGetMemoryInfo(handle).total)),
        )

    def _handle(self, uuid: str) -> Any:
        for prefix in ("", "GPU-", "MIG-"):
            handle = self._told(partial(self._library.nvmlDeviceGetHandleByUUID, prefix + uuid))
            if handle is not None:
                return handle
        raise NoNvml(f"NVML knows no GPU {uuid}")

    def _told(self, question: Callable[[], Any]) -> Any:
        """The answer, or None if the GPU does not support it."""
        try:
            return question()
        except self._library.NVMLError:
            return None
