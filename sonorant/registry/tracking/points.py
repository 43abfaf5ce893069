"""Metrics, sample images and machine load of a run directory."""

import json
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sonorant.training.telemetry.nvml import NoNvml, Nvml


@dataclass(frozen=True, kw_only=True)
class Point:
    key: str
    value: float
    """May be NaN or infinite."""
    step: int
    time: float
    """Unix time in seconds."""


class Tail:
    """Reads new lines of a growing file, or all if it was rewritten. The last line is compared, because a resumed
    trainer may rewrite lines without changing the size."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._position = 0
        self._last = b""

    def restart(self) -> None:
        self._position, self._last = 0, b""

    def read(self) -> list[Point]:
        """Return the points of newly completed lines, skipping damaged ones."""
        try:
            with self.path.open("rb") as file:
                file.seek(self._position - len(self._last))
                if file.read(len(self._last)) != self._last:
                    self.restart()
                    file.seek(0)
                data = file.read()
        except FileNotFoundError:
            return []
        whole = data[: data.rfind(b"\n") + 1]
        self._position += len(whole)
        lines = whole.splitlines(keepends=True)
        self._last = lines[-1] if lines else self._last
        return [point for line in lines for point in _points(line)]


def _points(line: bytes) -> list[Point]:
    try:
        row = json.loads(line)
        step, time = int(row["step"]), float(row["time"])
        return [Point(key=key, value=float(value), step=step, time=time) for key, value in row["metrics"].items()]
    except (ValueError, KeyError, TypeError, AttributeError):
        return []


def draw_sample(sample: Path, out: Path) -> None:
    """Draw `mel.npz` (target and predicted log-mel, (M, T)) and `alignment.npz` ((T, N) or (N, T)) from the folder
    `sample` as PNGs in `out`, skipping damaged files."""
    mels = {name: mel for name, mel in _arrays(sample / "mel.npz").items() if name in ("target", "predicted")}
    _draw(mels, "frame", "mel bin", out / "mel.png")
    _draw(_arrays(sample / "alignment.npz"), "frame", "phoneme", out / "alignment.png")


def _arrays(path: Path) -> dict[str, np.ndarray]:
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: np.squeeze(file[name]) for name in file.files}
    except (OSError, ValueError, zipfile.BadZipFile):
        return {}
    return {name: array.astype(np.float32) for name, array in arrays.items() if array.ndim == 2}


def _draw(arrays: dict[str, np.ndarray], across: str, up: str, out: Path) -> None:
    if not arrays:
        return
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # pyplot is not thread-safe
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 2.6 * len(arrays)), dpi=90, layout="constrained")
    FigureCanvasAgg(figure)
    for axis, (name, array) in zip(figure.subplots(len(arrays), squeeze=False)[:, 0], arrays.items(), strict=True):
        image = axis.imshow(array, origin="lower", aspect="auto", interpolation="none")
        axis.set(title=name, xlabel=across, ylabel=up)
        figure.colorbar(image, ax=axis)
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out)


def append_load(path: Path) -> None:
    """Append the machine load to `path` in the format of `metrics.jsonl`, with line numbers as steps."""
    step = path.read_bytes().count(b"\n") + 1 if path.exists() else 1
    row = {"step": step, "time": time.time(), "metrics": {**processor_load(), **gpu_load()}}
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def processor_load() -> dict[str, float]:
    """Return CPU use since the last call (percent) and memory use (MB and percent)."""
    import psutil

    memory = psutil.virtual_memory()
    return {
        "system/cpu_utilization_percentage": psutil.cpu_percent(),
        "system/system_memory_usage_megabytes": memory.used / 1e6,
        "system/system_memory_usage_percentage": memory.percent,
    }


def gpu_load() -> dict[str, float]:
    """Return utilisation (percent) and memory use (MB) of each NVIDIA GPU; empty without GPU or NVML."""
    try:
        with Nvml() as nvml:
            loads = [nvml.load(uuid)[0] for uuid in nvml.uuids()]
    except NoNvml:
        return {}
    load = {}
    for index, now in enumerate(loads):
        if "utilization" in now:
            load[f"system/gpu_{index}_utilization_percentage"] = now["utilization"]
        if "memory_gib" in now:
            load[f"system/gpu_{index}_memory_usage_megabytes"] = now["memory_gib"] * 2**30 / 1e6
    return load
