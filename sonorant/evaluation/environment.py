"""What the figures were measured on. Knows no host name, user or path: reports travel."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from sonorant.evaluation.processes import usable_cores

PACKAGES = (
    "sonorant", "numpy", "scipy", "torch", "onnxruntime", "gruut", "soxr", "jiwer", "pyworld-prebuilt", "speechmos", "resemblyzer",
)  # fmt: skip


def describe_environment() -> dict[str, Any]:
    """Python, operating system, processor, usable cores and the versions of the packages that matter to the figures."""
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cpu": _cpu_model(),
        "cores": usable_cores(),
        "packages": {package: _version(package) for package in PACKAGES},
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:  # not Linux
        return platform.processor() or "unknown"
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")
