"""The machine's load as points of a run. Knows nothing of training."""

from __future__ import annotations

import json
import time
from pathlib import Path


def append_load(path: Path) -> None:
    """Append one line of the machine's load now, in the format of `metrics.jsonl`; its step counts the lines."""
    step = path.read_bytes().count(b"\n") + 1 if path.exists() else 1
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"step": step, "time": time.time(), "metrics": {**processor_load(), **gpu_load()}}) + "\n")


def processor_load() -> dict[str, float]:
    """Share of all cores in use since the last call (percent), memory in use (MB, percent of the machine's)."""
    import psutil

    memory = psutil.virtual_memory()
    return {
        "system/cpu_utilization_percentage": psutil.cpu_percent(),
        "system/system_memory_usage_megabytes": memory.used / 1e6,
        "system/system_memory_usage_percentage": memory.percent,
    }


def gpu_load() -> dict[str, float]:
    """Use (percent) and memory (MB) of each NVIDIA device; nothing where there is none or NVML is not installed."""
    try:
        import pynvml

        pynvml.nvmlInit()
    except Exception:  # NVML raises a class of its own for each way in which there is no GPU
        return {}
    try:
        load = {}
        for index in range(pynvml.nvmlDeviceGetCount()):
            device = pynvml.nvmlDeviceGetHandleByIndex(index)
            load[f"system/gpu_{index}_utilization_percentage"] = float(pynvml.nvmlDeviceGetUtilizationRates(device).gpu)
            load[f"system/gpu_{index}_memory_usage_megabytes"] = pynvml.nvmlDeviceGetMemoryInfo(device).used / 1e6
        return load
    except pynvml.NVMLError:
        return {}
    finally:
        pynvml.nvmlShutdown()
