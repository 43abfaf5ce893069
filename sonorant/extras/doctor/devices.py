"""Check the GPUs that torch sees, the links between them, and their state by NVML."""

import shutil
import subprocess
from collections.abc import Iterator

import torch

from sonorant.extras.doctor.examination import Finding, not_run, ok, problem, warning
from sonorant.training.telemetry.nvml import Gpu, NoNvml, Nvml

AREA = "devices"
GIB = 2**30
HOT = 85.0
"""Degrees Celsius at which GPUs throttle."""
TAKEN = 0.1
"""Share of memory in use by others that deserves a warning."""


def examine() -> Iterator[Finding]:
    count = torch.cuda.device_count()
    if not count:
        yield not_run(AREA, "GPUs", "torch sees none: ranks are CPU processes that talk over gloo")
        return
    supported = set(torch.cuda.get_arch_list())
    for index in range(count):
        yield from examine_one(index, supported)
    try:
        with Nvml() as nvml:
            for gpu in nvml.gpus():
                yield from examine_state(gpu, nvml.load(gpu.uuid).temperature)
    except NoNvml as reason:
        yield not_run(AREA, "state", str(reason), "pip install nvidia-ml-py" if "not installed" in str(reason) else "")
    yield from examine_links(count)


def examine_one(index: int, supported: set[str]) -> Iterator[Finding]:
    """What CUDA reports of one GPU, and whether this build of torch has kernels for it."""
    name = f"cuda:{index}"
    try:
        properties = torch.cuda.get_device_properties(index)
        free, size = torch.cuda.mem_get_info(index)
    except RuntimeError as error:
        hint = "nvidia-smi shows whether another process has it alone"
        yield problem(AREA, name, f"does not answer: {str(error).splitlines()[0]}", hint)
        return
    capability = f"compute capability {properties.major}.{properties.minor}"
    what = f"{properties.name}, {size / GIB:.0f} GiB, {capability}, UUID {properties.uuid}"
    if not runs_on(properties.major, properties.minor, supported):
        value = f"{what}: this torch has kernels for {' '.join(sorted(supported))} only"
        yield problem(AREA, name, value, "install a build of torch that has this GPU's")
    elif free < (1 - TAKEN) * size:
        value = f"{what}: {(size - free) / GIB:.1f} GiB are in use"
        yield warning(AREA, name, value, "nvidia-smi shows by whom; training takes what is free")
    else:
        yield ok(AREA, name, what)


def runs_on(major: int, minor: int, supported: set[str]) -> bool:
    """Whether a GPU runs one of torch's kernels: `sm_86` runs on GPUs of its major from its minor on, `compute_86`
    (compiled at run time) on all newer ones too."""
    for arch in supported:
        kind, _, number = arch.partition("_")
        digits = number.rstrip("af")
        if digits.isdigit() and kind in ("sm", "compute"):
            built = divmod(int(digits), 10)
            if (major, minor) >= built and (kind == "compute" or major == built[0]):
                return True
    return False


def examine_state(gpu: Gpu, temperature: float | None) -> Iterator[Finding]:
    """What NVML reports of one GPU of the machine."""
    name = f"{gpu.uuid[:12]} state"
    warm = "temperature not told" if temperature is None else f"{temperature:.0f} C"
    limit = "" if gpu.power_limit is None else f", {gpu.power_limit:.0f} W at most"
    value = f"{warm}{limit}, ECC {said(gpu.ecc)}, MIG {said(gpu.mig)}, persistence {said(gpu.persistence)}"
    if gpu.uncorrected_errors:
        value = f"{gpu.uncorrected_errors} memory errors not corrected; {value}"
        yield problem(AREA, name, value, "nvidia-smi -r, or replace the GPU")
    elif temperature is not None and temperature >= HOT:
        yield warning(AREA, name, value, "it slows itself down when hot: look at fans and air flow")
    elif gpu.mig:
        hint = "NCCL does not join instances of one GPU: train on one of them, or sudo nvidia-smi -mig 0"
        yield warning(AREA, name, value, hint)
    elif gpu.persistence is False:
        yield warning(AREA, name, value, "every start waits for the driver: sudo nvidia-smi -pm 1")
    else:
        yield ok(AREA, name, value)


def said(flag: bool | None) -> str:
    return "not told" if flag is None else "on" if flag else "off"


def examine_links(count: int) -> Iterator[Finding]:
    """Which pairs of GPUs can access each other's memory, and over which links."""
    if count < 2:
        yield not_run("links", "GPU to GPU", "there is one GPU")
        return
    pairs = [(one, other) for one in range(count) for other in range(count) if one < other]
    apart = [pair for pair in pairs if not torch.cuda.can_device_access_peer(*pair)]
    if apart:
        named = ", ".join(f"{one}-{other}" for one, other in apart[:8])
        value = f"{len(apart)} of {len(pairs)} pairs have none ({named}): gradients go through the host's memory"
        where = "on servers switch off ACS in the BIOS; in virtual machines pass GPUs of one switch"
        yield warning("links", "peer access", value, f"{where}; graphics cards often have none")
    else:
        yield ok("links", "peer access", f"all {len(pairs)} pairs")
    yield topology()


def topology() -> Finding:
    if shutil.which("nvidia-smi") is None:
        return not_run("links", "topology", "nvidia-smi is not on PATH")
    done = subprocess.run(["nvidia-smi", "topo", "-m"], capture_output=True, text=True, timeout=60, check=False)
    if done.returncode:
        return not_run("links", "topology", f"nvidia-smi topo -m ended with {done.returncode}")
    rows = [line.split() for line in done.stdout.splitlines() if line.startswith("GPU")]
    return ok("links", "topology", "; ".join(" ".join(row) for row in rows))
