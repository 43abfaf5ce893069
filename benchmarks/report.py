"""What all benchmarks share: the machine they ran on and the verdict they end with. Knows nothing of what is
measured."""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from sonorant.files import write_json
from sonorant.processes import usable_cores

RESULTS = Path(__file__).parent / "results"
_PACKAGES = ("numpy", "torch", "onnxruntime", "prefect", "dvc", "mlflow")


def machine() -> dict[str, Any]:
    """Processor, cores this process may use, GPUs, memory in GiB, system and versions; nothing that names the machine
    or its folders."""
    return {
        "cpu": _processor(),
        "cores": usable_cores(),
        "gpu": _gpu(),
        "memory_gib": _memory_gib(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        **{package: found for package in _PACKAGES if (found := _version(package))},
        "threads": os.environ.get("OMP_NUM_THREADS"),
    }


def save_option(parser: argparse.ArgumentParser) -> None:
    """Give a benchmark's command line the option --save."""
    parser.add_argument("--save", action="store_true", help="also write benchmarks/results/<name>.json")


def finish(name: str, result: dict[str, Any], claims: dict[str, bool], save: bool = False) -> None:
    """Print the verdict as one JSON line, the last of the output, and exit with status 1 if a claim does not
    hold.

    `claims` maps each claim, in words, to whether it held. With `save`, benchmarks/results/<name>.json keeps the
    verdict too.
    """
    holds = all(claims.values())
    verdict = {"benchmark": name, "holds": holds, "claims": claims, "result": result, "machine": machine()}
    if save:
        write_json(RESULTS / f"{name}.json", verdict)
    sys.stderr.flush()
    print(json.dumps(verdict, ensure_ascii=False, allow_nan=False), flush=True)
    if not holds:
        raise SystemExit(1)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or "unknown"


def _gpu() -> str | None:
    """NVIDIA's names of the GPUs there are."""
    command = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return ", ".join(done.stdout.split("\n")).strip(", ") or None if done.returncode == 0 else None


def _memory_gib() -> float | None:
    if "SC_PHYS_PAGES" not in os.sysconf_names:
        return None
    return round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1)
