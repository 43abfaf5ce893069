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
import json
from sonorant.registry.tracking.points import gpu_load
from sonorant.training.telemetry.nvml import NoNvml, Nvml
with Nvml() as nvml:
    said = {"driver": nvml.driver, "uuids": nvml.uuids(), "loads": [nvml.load(uuid) for uuid in nvml.uuids()]}
    said["by_torchs_uuid"] = nvml.load(said["uuids"][0].removeprefix("GPU-"))
    said["tracked"] = gpu_load()
    try:
        nvml.load("GPU-0")
    except NoNvml as error:
        said["unknown"] = str(error)
print(json.dumps(said))
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


def asked(code: str, folder: Path) -> dict[str, Any]:
    """JSON printed by `code` with the fake NVML."""
    pytest.importorskip("pynvml", reason="needs nvidia-ml-py")
    library = folder / "libnvidia-ml.so.1"
    build = ["gcc", "-shared", "-fPIC", "-Wall", "-Werror", "-I", str(header()), str(SOURCE), "-o", library]
    subprocess.run(build, check=True)
    env = {**os.environ, "LD_LIBRARY_PATH": str(folder)}
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_figures_have_their_units_and_what_a_gpu_does_not_report_is_left_out(tmp_path: Path) -> None:
    said = asked(ASK, tmp_path)
    assert said["driver"] == "580.65.06" and said["uuids"] == [FIRST, SECOND]
    first, second = said["loads"]
    assert first == said["by_torchs_uuid"] == [
        {"utilization": 37.0, "temperature": 64.0, "power": 312.5, "clock": 1410.0, "slowed": 1.0, "memory_gib": 6.0,
         "memory_share": 0.25},
        ["heat, by the hardware"],
    ]  # fmt: skip
    assert second == [{"utilization": 37.0, "temperature": 64.0}, []]
    assert said["unknown"] == "NVML has no GPU GPU-0"
    assert said["tracked"] == {
        "system/gpu_0_utilization_percentage": 37.0,
        "system/gpu_0_memory_usage_megabytes": pytest.approx(6 * 2**30 / 1e6),
        "system/gpu_1_utilization_percentage": 37.0,
    }
