"""Units of NVML's figures through nvidia-ml-py, with a library compiled from `fake_nvml.c`."""

import json
import os
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import Any

import pytest

from tests.support.imports import ROOT

SOURCE = Path(__file__).with_name("fake_nvml.c")
FIRST, SECOND = "GPU-11111111-2222-3333-4444-555555555555", "GPU-66666666-7777-8888-9999-000000000000"
ASK = """
import json, sys
from dataclasses import asdict
from sonorant.training.telemetry.nvml import NoNvml, Nvml
with Nvml() as nvml:
    said = {"driver": nvml.driver, "cuda": nvml.cuda, "gpus": [asdict(gpu) for gpu in nvml.gpus()]}
    said["loads"] = [asdict(nvml.load(gpu["uuid"])) for gpu in said["gpus"]]
    said["by_torchs_uuid"] = asdict(nvml.load(said["gpus"][0]["uuid"].removeprefix("GPU-")))
    try:
        nvml.load("GPU-0")
    except NoNvml as error:
        said["unknown"] = str(error)
print(json.dumps(said))
"""
MONITOR = """
import json
from sonorant.training.telemetry.nvml import Nvml
from sonorant.registry.tracking.points import gpu_load
from sonorant.training.telemetry.device import figures_of
with Nvml() as nvml:
    gpus = nvml.gpus()
    figures = [figures_of(nvml.load(gpu.uuid)) for gpu in gpus]
print(json.dumps({"figures": figures, "tracked": gpu_load()}))
"""


def header() -> Path | None:
    """Folder of nvml.h, from the package nvidia-nvml-dev."""
    try:
        return next(Path(str(file.locate())).parent for file in files("nvidia-nvml-dev") or [] if file.name == "nvml.h")
    except PackageNotFoundError:
        return None


pytestmark = [
    pytest.mark.skipif(sys.platform != "linux" or shutil.which("gcc") is None, reason="needs gcc on Linux"),
    pytest.mark.skipif(header() is None, reason="needs nvidia-nvml-dev"),
]


def asked(code: str, folder: Path, *options: str) -> dict[str, Any]:
    """JSON printed by `code` with the fake NVML."""
    pytest.importorskip("pynvml", reason="needs nvidia-ml-py")
    library = folder / "libnvidia-ml.so.1"
    build = ["gcc", "-shared", "-fPIC", "-Wall", "-Werror", "-I", str(header()), *options, str(SOURCE), "-o", library]
    subprocess.run(build, check=True)
    env = {**os.environ, "LD_LIBRARY_PATH": str(folder)}
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_every_figure_has_its_unit(tmp_path: Path) -> None:
    said = asked(ASK, tmp_path)
    assert (said["driver"], said["cuda"]) == ("580.65.06", [13, 2])
    assert said["gpus"][0] == {
        "index": 0, "uuid": FIRST, "name": "NVIDIA Model 24GB", "memory": 24 * 2**30,
    }  # fmt: skip
    assert said["loads"][0] == said["by_torchs_uuid"] == {
        "utilization": 37.0, "memory_used": 6 * 2**30, "temperature": 64.0, "power": 312.5, "memory_total": 24 * 2**30,
        "clock": 1410.0, "slowed": ["heat, by the hardware"],
    }  # fmt: skip
    assert said["unknown"] == "NVML knows no GPU GPU-0"


def test_what_a_gpu_does_not_tell_is_none_and_no_zero(tmp_path: Path) -> None:
    said = asked(ASK, tmp_path)
    assert said["gpus"][1] == {
        "index": 1, "uuid": SECOND, "name": "NVIDIA vGPU", "memory": None,
    }  # fmt: skip
    assert said["loads"][1] == {
        "utilization": 37.0, "memory_used": None, "temperature": 64.0, "power": None, "memory_total": None,
        "clock": None, "slowed": None,
    }  # fmt: skip


def test_training_and_tracking_report_the_same_of_a_gpu(tmp_path: Path) -> None:
    said = asked(MONITOR, tmp_path)
    assert said["figures"] == [
        {"utilization": 37.0, "temperature": 64.0, "power": 312.5, "clock": 1410.0, "slowed": 1.0, "memory_gib": 6.0,
         "memory_share": 0.25},
        {"utilization": 37.0, "temperature": 64.0},
    ]  # fmt: skip
    assert said["tracked"] == {
        "system/gpu_0_utilization_percentage": 37.0,
        "system/gpu_0_memory_usage_megabytes": pytest.approx(6 * 2**30 / 1e6),
        "system/gpu_1_utilization_percentage": 37.0,
    }
