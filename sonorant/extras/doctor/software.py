"""Check that Python, driver, torch, ONNX Runtime and the locked versions fit together."""

import importlib.metadata
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import torch

from sonorant.extras.doctor.examination import Finding, not_run, ok, problem, warning
from sonorant.training.telemetry.nvml import NoNvml, Nvml

AREA = "versions"
PYTHON = ((3, 11), (3, 13))
"""From the first, below the second: `requires-python` of pyproject.toml."""
DRIVER_OF_CUDA = {12: (525, 60, 13), 13: (580,)}
"""Oldest Linux driver for a CUDA major (docs.nvidia.com/deploy/cuda-compatibility)."""


def examine(lock: Path | None) -> Iterator[Finding]:
    """Findings of this installation; `lock`: requirements.lock to compare with."""
    yield check_python(sys.version_info[:2])
    cuda = version_of(torch.version.cuda or "")
    try:
        with Nvml() as nvml:
            driver, why = version_of(nvml.driver), ""
    except NoNvml as reason:
        driver, why = (), str(reason)
    yield check_driver(driver, cuda, why)
    yield check_torch(driver, cuda)
    yield check_onnxruntime([name for name in ("onnxruntime", "onnxruntime-gpu") if installed(name)])
    yield check_lock(lock)


def check_python(version: tuple[int, ...]) -> Finding:
    """Whether Sonorant is tested with this Python."""
    oldest, beyond = (".".join(map(str, each)) for each in PYTHON)
    if PYTHON[0] <= version < PYTHON[1]:
        return ok(AREA, "Python", ".".join(map(str, version)))
    hint = f"make the environment with Python {oldest} or newer, below {beyond}"
    return problem(AREA, "Python", ".".join(map(str, version)), hint)


def check_driver(driver: tuple[int, ...], cuda: tuple[int, ...], why: str = "") -> Finding:
    """Whether the NVIDIA driver runs programs of torch's CUDA; `why`: reason for an unknown driver."""
    shown = ".".join(map(str, driver))
    if not cuda:
        return ok(AREA, "driver", shown) if driver else not_run(AREA, "driver", why)
    if not driver:
        hint = "install NVIDIA's driver if there is a GPU; start a container with --gpus all"
        return warning(AREA, "driver", f"{why}, and torch is built for CUDA {cuda[0]}", hint)
    needed = DRIVER_OF_CUDA.get(cuda[0], ())
    if driver < needed:
        hint = "install a newer driver, or a build of torch for an older CUDA"
        return problem(AREA, "driver", f"{shown}; CUDA {cuda[0]} needs {'.'.join(map(str, needed))}", hint)
    return ok(AREA, "driver", shown)


def check_torch(driver: tuple[int, ...], cuda: tuple[int, ...]) -> Finding:
    """Whether torch can use the GPUs of this machine."""
    value = f"{torch.__version__}, " + (f"CUDA {torch.version.cuda}" if cuda else "built without CUDA")
    if driver and not cuda:
        return problem(AREA, "torch", f"{value}, beside a driver", "install torch's build for CUDA, or GPUs stay idle")
    if driver and not torch.cuda.is_available():
        hint = "check CUDA_VISIBLE_DEVICES and the driver; start a container with --gpus all"
        return problem(AREA, "torch", f"{value}, but CUDA does not start", hint)
    return ok(AREA, "torch", value)


def check_onnxruntime(packages: list[str]) -> Finding:
    """Whether exactly one of ONNX Runtime's packages is installed."""
    if not packages:
        return not_run(AREA, "ONNX Runtime", "not installed", "pip install onnxruntime, where voices are to speak")
    if len(packages) == 2:
        hint = "pip uninstall -y onnxruntime onnxruntime-gpu, then install the one you want"
        return problem(AREA, "ONNX Runtime", f"{' and '.join(packages)} overwrite each other's files", hint)
    return ok(AREA, "ONNX Runtime", f"{installed(packages[0])} ({packages[0]})")


def check_lock(lock: Path | None) -> Finding:
    """Whether installed packages are the versions that were tested together."""
    if lock is None or not lock.is_file():
        return not_run(AREA, "packages", f"no {lock or 'lock'} here")
    pins = dict(re.findall(r"^([\w.-]+)==(\S+)", lock.read_text(encoding="utf-8"), flags=re.MULTILINE))
    have = {name: found.split("+")[0] for name in pins if (found := installed(name))}
    wrong = [f"{name} {v} (locked {pins[name]})" for name, v in have.items() if v != pins[name].split("+")[0]]
    if wrong:
        more = f" and {len(wrong) - 6} more" if len(wrong) > 6 else ""
        return warning(AREA, "packages", "; ".join(wrong[:6]) + more, f"pip install -r {lock}")
    return ok(AREA, "packages", f"{len(have)} as locked, {len(pins) - len(have)} not installed")


def installed(package: str) -> str | None:
    """Version of an installed package."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def version_of(text: str) -> tuple[int, ...]:
    """The leading numbers of a version: `580.65.06` is (580, 65, 6)."""
    found = re.match(r"\d+(?:\.\d+)*", text)
    return tuple(int(part) for part in found[0].split(".")) if found else ()
