"""The machine's load as points of a run. Knows nothing of training."""

from __future__ import annotations

import json
import time
from pathlib import Path

from sonorant.gpu import NoNvml, Nvml


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
        with Nvml() as nvml:
            loads = {gpu.index: nvml.load(gpu.uuid) for gpu in nvml.gpus()}
    except NoNvml:
        return {}
    load = {}
    for index, now in loads.items():
        if now.utilization is not None:
            load[f"system/gpu_{index}_utilization_percentage"] = now.utilization
        if now.memory_used is not None:
            load[f"system/gpu_{index}_memory_usage_megabytes"] = now.memory_used / 1e6
    return load
