"""What the figures were measured on. Knows no host name, user or path: reports travel.

What a candidate takes of memory, measured in a process that does nothing else. Knows nothing of time.

Run as a module it is that process: a job as JSON on stdin, figures as JSON on stdout."""

from __future__ import annotations

import json
import platform
import re
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sonorant.processes import usable_cores

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


STATUS = Path("/proc/self/status")


def measure_memory(
    bundle: Path, trained: tuple[Path, Path], candidates: Mapping[str, str | None], tokens: NDArray[np.int64]
) -> dict[str, Any]:
    """`{candidate: {loaded_mib, peak_mib} | "not run: <why>"}`: of a whole process, Python included, with one thread.

    Args:
        bundle: with the variants.
        trained: the trained folders, for torch.
        candidates: each with why it cannot run, or None.
        tokens: phoneme ids (N, 3) of the sentence spoken between `loaded` and `peak`; the longest.
    """
    return {
        candidate: f"not run: {reason}" if reason else _measured(bundle, trained, candidate, tokens)
        for candidate, reason in candidates.items()
    }


def _measured(
    bundle: Path, trained: tuple[Path, Path], candidate: str, tokens: NDArray[np.int64]
) -> dict[str, float] | str:
    if not STATUS.exists():
        return "not run: this system has no /proc"
    job = {
        "bundle": str(bundle),
        "candidate": candidate,
        "trained": [str(folder) for folder in trained],
        "tokens": tokens.tolist(),
    }
    command = [sys.executable, "-m", "sonorant.evaluation.environment"]
    done = subprocess.run(command, input=json.dumps(job), capture_output=True, text=True)
    if done.returncode:
        return f"not run: {(done.stderr.strip().splitlines() or [f'ended with status {done.returncode}'])[-1]}"
    figures: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def main() -> None:
    """Load the candidate, speak once, print what it took."""
    from sonorant.runtime.runtimes import runtime_row
    from sonorant.runtime.voice import Voice

    job = json.load(sys.stdin)
    runtime, variant = job["candidate"].split("/")
    trained = (Path(job["trained"][0]), Path(job["trained"][1])) if not runtime_row(runtime).standalone else None
    voice = Voice.load(job["bundle"], runtime, 1, variant=variant, trained=trained)
    loaded = _status("VmRSS")
    tokens = np.array(job["tokens"], np.int64)
    voice.synthesize(tokens[None], np.array([len(tokens)]), np.zeros(1, np.int64), np.ones(1, np.float32))
    # Not getrusage: after exec its maximum is still that of the process that forked.
    print(json.dumps({"loaded_mib": loaded, "peak_mib": _status("VmHWM")}))


def _status(key: str) -> float:
    [kibibytes] = re.findall(rf"^{key}:\s+(\d+) kB", STATUS.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return round(int(kibibytes) / 1024, 1)


if __name__ == "__main__":
    main()
