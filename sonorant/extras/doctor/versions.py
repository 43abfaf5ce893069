"""Check that the versions of Python, driver, torch, ONNX Runtime and TensorRT fit together."""

import importlib.metadata
import importlib.util
import mmap
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import torch

from sonorant.extras.doctor.examination import Finding, not_run, ok, problem, warning
from sonorant.extras.doctor.requirements import (
    CUDNN_MAJOR_OF_CUDA,
    DRIVER_OF_CUDA,
    ONNXRUNTIME,
    PYTHON,
    TENSORRT_MAJORS,
    Version,
    at_least,
    parse,
    show,
)
from sonorant.training.telemetry.nvml import NoNvml, Nvml

AREA = "versions"
LIBRARIES = {"cudart": "CUDA", "cudnn": "cuDNN"}


@dataclass(frozen=True, kw_only=True)
class Driver:
    """The NVIDIA driver, or why there is none."""

    version: Version | None
    """None: there is none, or it does not say."""
    cuda: tuple[int, int] | None = None
    """Newest CUDA it runs."""
    why: str = ""
    """Why `version` is None."""


def examine(lock: Path | None) -> Iterator[Finding]:
    """Findings of Python, driver, torch and its libraries, ONNX Runtime, TensorRT, and packages against `lock`."""
    yield check_python(sys.version_info[:3])
    driver = read_driver()
    cuda = parse(torch.version.cuda or "") or None
    yield check_driver(driver, cuda)
    yield check_torch(driver, cuda)
    if cuda:
        cudnn = torch.backends.cudnn.version()
        yield check_cudnn(cudnn and cudnn_version(cudnn), cuda)
        yield check_nccl()
        yield check_pins("torch")
    else:
        for name in ("cuDNN", "NCCL"):
            yield not_run(AREA, name, "this torch is built without CUDA")
    yield from examine_onnxruntime(cuda)
    yield from examine_tensorrt()
    yield check_lock(lock)


def read_driver(loaded: Path = Path("/proc/driver/nvidia/version")) -> Driver:
    """Ask NVML, or read the kernel module's version."""
    try:
        with Nvml() as nvml:
            return Driver(version=parse(nvml.driver), cuda=nvml.cuda)
    except NoNvml as reason:
        found = None
        with suppress(OSError):
            found = re.search(r"Kernel Module\D*(\d[\d.]+)", loaded.read_text())
        return Driver(version=parse(found[1]) if found else None, why=str(reason))


def check_python(version: Version) -> Finding:
    """Whether Sonorant is tested with this Python."""
    oldest, beyond = PYTHON
    if oldest <= version < beyond:
        return ok(AREA, "Python", show(version))
    hint = f"make the environment with Python {show(oldest)} or newer, below {show(beyond)}"
    return problem(AREA, "Python", show(version), hint)


def check_driver(driver: Driver, cuda: Version | None) -> Finding:
    """Whether the driver runs programs of this torch's CUDA."""
    if driver.version is None:
        if cuda is None:
            return not_run(AREA, "driver", driver.why)
        hint = "training will use CPUs: install NVIDIA's driver if there is a GPU; start a container with --gpus all"
        return warning(AREA, "driver", f"{driver.why}, and torch is built for CUDA {show(cuda)}", hint)
    value = show(driver.version) + (f", runs CUDA up to {show(driver.cuda)}" if driver.cuda else "")
    needed = DRIVER_OF_CUDA.get(cuda[0]) if cuda else None
    if cuda is not None and needed is None:
        return not_run(AREA, "driver", f"{value}; no requirement is known for CUDA {show(cuda)}")
    if needed is not None and cuda is not None and not at_least(driver.version, needed):
        hint = f"install driver {show(needed)} or newer, or a build of torch for an older CUDA"
        return problem(AREA, "driver", f"{value}; torch's CUDA {show(cuda)} needs {show(needed)}", hint)
    return ok(AREA, "driver", value)


def check_torch(driver: Driver, cuda: Version | None) -> Finding:
    """Whether torch can use the GPUs of this machine."""
    value = f"{torch.__version__}, " + (f"CUDA {show(cuda)}" if cuda else "built without CUDA")
    if driver.version is not None and cuda is None:
        hint = "this machine's GPUs stay idle: install torch's build for CUDA"
        return problem(AREA, "torch", f"{value}, beside a driver", hint)
    if driver.version is not None and not torch.cuda.is_available():
        hint = "check CUDA_VISIBLE_DEVICES and the driver above; start a container with --gpus all"
        return problem(AREA, "torch", f"{value}, but CUDA does not start", hint)
    return ok(AREA, "torch", value)


def cudnn_version(number: int) -> Version:
    """cuDNN's number as a version: 91002 is 9.10.2 and 8902 is 8.9.2."""
    major = 10000 if number >= 90000 else 1000
    return number // major, number % major // 100, number % 100


def check_cudnn(found: Version | None, cuda: Version) -> Finding:
    """Whether the loaded cuDNN belongs to torch's CUDA."""
    if not found:
        hint = "install torch again with its NVIDIA packages: pip install --force-reinstall torch"
        return problem(AREA, "cuDNN", "torch finds none", hint)
    majors = CUDNN_MAJOR_OF_CUDA.get(cuda[0])
    if majors is not None and found[0] not in majors:
        value = f"{show(found)}; CUDA {show(cuda)} needs {' or '.join(map(str, majors))}"
        return problem(AREA, "cuDNN", value, "the system's cuDNN is found first: take it out of LD_LIBRARY_PATH")
    return ok(AREA, "cuDNN", show(found))


def check_nccl() -> Finding:
    if not torch.distributed.is_nccl_available():
        hint = "several GPUs cannot train together: install torch's build for Linux with CUDA"
        return problem(AREA, "NCCL", "this torch has none", hint)
    return ok(AREA, "NCCL", show(torch.cuda.nccl.version()))


def check_pins(package: str) -> Finding:
    """Whether the NVIDIA libraries that a package's metadata pins are installed in these versions."""
    name = f"{package}'s libraries"
    required = "\n".join(importlib.metadata.requires(package) or [])
    pins = dict(re.findall(r"^(nvidia-[\w-]+)==([\w.]+)", required, flags=re.MULTILINE))
    if not pins:
        return not_run(AREA, name, f"this build of {package} pins none")
    have = [(library, installed(library), pin) for library, pin in pins.items()]
    wrong = [f"{library} {found or 'missing'} (pinned {pin})" for library, found, pin in have if found != pin]
    if wrong:
        return problem(AREA, name, "; ".join(wrong), f"pip install --force-reinstall {package}=={installed(package)}")
    return ok(AREA, name, f"{len(pins)} NVIDIA packages as pinned")


def examine_onnxruntime(cuda: Version | None) -> Iterator[Finding]:
    """ONNX Runtime, and the CUDA its provider links."""
    both = [name for name in ("onnxruntime", "onnxruntime-gpu") if installed(name)]
    if not both:
        yield not_run(AREA, "ONNX Runtime", "not installed", "pip install onnxruntime, where voices are to speak")
        return
    version = parse(installed(both[-1]) or "")
    if len(both) == 2:
        value = "onnxruntime and onnxruntime-gpu are both installed and overwrite each other's files"
        hint = "pip uninstall -y onnxruntime onnxruntime-gpu, then install the one that is wanted"
        yield problem(AREA, "ONNX Runtime", value, hint)
    elif not at_least(version, ONNXRUNTIME):
        hint = f"exported voices need {show(ONNXRUNTIME)}: pip install -U {both[-1]}"
        yield problem(AREA, "ONNX Runtime", show(version), hint)
    else:
        yield ok(AREA, "ONNX Runtime", f"{show(version)} ({both[-1]})")
    library = provider("cuda")
    if library is not None:
        yield check_linked_cuda(linked(library), cuda)


def provider(name: str) -> Path | None:
    """ONNX Runtime's shared library of a provider, if its package has one."""
    package = importlib.util.find_spec("onnxruntime")
    for folder in (package and package.submodule_search_locations) or []:
        library = Path(folder) / f"capi/libonnxruntime_providers_{name}.so"
        if library.exists():
            return library
    return None


def check_linked_cuda(needs: dict[str, int], cuda: Version | None) -> Finding:
    """Whether ONNX Runtime's CUDA provider and torch link the same CUDA, as one process needs."""
    name = "ONNX Runtime on CUDA"
    value = "links " + ", ".join(f"{library} {needs[key]}" for key, library in LIBRARIES.items() if key in needs)
    if cuda is not None and "cudart" in needs and needs["cudart"] != cuda[0]:
        install = f"install onnxruntime-gpu for CUDA {cuda[0]}, or voices speak on the CPU"
        hint = f"the provider finds no libraries beside this torch: {install}"
        return warning(AREA, name, f"{value}, torch CUDA {show(cuda)}", hint)
    return ok(AREA, name, value)


def examine_tensorrt() -> Iterator[Finding]:
    """TensorRT, and which one ONNX Runtime's provider links."""
    try:
        import tensorrt
    except ModuleNotFoundError:
        yield not_run(AREA, "TensorRT", "not installed", "optional: pip install 'sonorant[gpu]'")
        return
    except (ImportError, OSError, RuntimeError) as error:
        value = f"installed, but does not load: {str(error).splitlines()[0]}"
        yield problem(AREA, "TensorRT", value, "pip install --force-reinstall tensorrt")
        return
    version = parse(tensorrt.__version__)
    library = provider("tensorrt")
    yield check_tensorrt(version, linked(library).get("nvinfer") if library else None)


def check_tensorrt(version: Version, provider: int | None) -> Finding:
    """Whether Sonorant supports this TensorRT, and whether ONNX Runtime's `provider` links it (its major)."""
    if version[0] not in TENSORRT_MAJORS:
        known = " or ".join(map(str, TENSORRT_MAJORS))
        hint = f"Sonorant supports {known}: pip install 'tensorrt~={TENSORRT_MAJORS[-1]}.0'"
        return problem(AREA, "TensorRT", show(version), hint)
    if provider is not None and provider != version[0]:
        hint = f"use TensorRT directly, or, for the provider instead, pip install 'tensorrt~={provider}.0'"
        return warning(AREA, "TensorRT", f"{show(version)}; ONNX Runtime's provider links {provider}", hint)
    return ok(AREA, "TensorRT", show(version))


def linked(library: Path) -> dict[str, int]:
    """Majors of the CUDA libraries that a shared library names, such as {"cudart": 13, "cudnn": 9, "nvinfer": 10}."""
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view:
        found = re.findall(rb"\0lib(cudart|cudnn|cublas|nvinfer)\.so\.(\d+)(?=\0)", view)
    return {name.decode(): int(major) for name, major in found}


def check_lock(lock: Path | None) -> Finding:
    """Whether the installed packages are those that were tested together."""
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
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
