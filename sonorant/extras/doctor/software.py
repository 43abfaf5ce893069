"""Check that the driver, torch, ONNX Runtime and the locked versions are compatible."""

import importlib.metadata
import platform
import re
from collections.abc import Iterator
from pathlib import Path

import torch

from sonorant.extras.doctor.finding import Finding, not_run, ok, problem, warning
from sonorant.training.telemetry.nvml import NoNvml, Nvml


def examine(lock: Path) -> Iterator[Finding]:
    yield ok("Python", platform.python_version())
    try:
        with Nvml() as nvml:
            driver, why = nvml.driver, ""
    except NoNvml as reason:
        driver, why = "", str(reason)
    cuda = torch.version.cuda
    yield ok("driver", driver) if driver else check_no_driver(why, cuda)
    yield check_torch(driver, cuda, torch.cuda.is_available())
    yield check_onnxruntime([name for name in ("onnxruntime", "onnxruntime-gpu") if installed(name)])
    yield check_lock(lock)


def check_no_driver(why: str, cuda: str | None) -> Finding:
    if not cuda:
        return not_run("driver", why)
    hint = "install NVIDIA's driver if there is a GPU; start containers with --gpus all"
    return warning("driver", f"{why}, and torch is built for CUDA {cuda}", hint)


def check_torch(driver: str, cuda: str | None, starts: bool) -> Finding:

    value = f"{torch.__version__}, " + (f"CUDA {cuda}" if cuda else "built without CUDA")
    if driver and not cuda:
        return problem("torch", f"{value}, but there is a driver", "install a CUDA build of torch, or GPUs stay idle")
    if driver and not starts:
        hint = "install a newer driver or a build of torch for an older CUDA; check CUDA_VISIBLE_DEVICES"
        return problem("torch", f"{value}, but CUDA does not start with driver {driver}", hint)
    return ok("torch", value)


def check_onnxruntime(packages: list[str]) -> Finding:

    if not packages:
        return not_run("ONNX Runtime", "not installed", "run pip install onnxruntime to export voices and speak")
    if len(packages) == 2:
        hint = "pip uninstall -y onnxruntime onnxruntime-gpu, then install the one you want"
        return problem("ONNX Runtime", f"{' and '.join(packages)} overwrite each other's files", hint)
    return ok("ONNX Runtime", f"{installed(packages[0])} ({packages[0]})")


def check_lock(lock: Path) -> Finding:
    """Check that the installed versions are those of requirements.lock, which were tested together."""
    if not lock.is_file():
        return not_run("packages", f"{lock} does not exist")
    pins = dict(re.findall(r"^([\w.-]+)==(\S+)", lock.read_text(encoding="utf-8"), flags=re.MULTILINE))
    have = {name: found.split("+")[0] for name in pins if (found := installed(name))}
    wrong = [f"{name} {v} (locked {pins[name]})" for name, v in have.items() if v != pins[name].split("+")[0]]
    if wrong:
        more = f" and {len(wrong) - 6} more" if len(wrong) > 6 else ""
        return warning("packages", "; ".join(wrong[:6]) + more, f"pip install -r {lock}")
    return ok("packages", f"{len(have)} as locked, {len(pins) - len(have)} not installed")


def installed(package: str) -> str | None:

    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
