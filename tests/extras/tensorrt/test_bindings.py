"""All TensorRT and CUDA names and signatures in the code exist in bindings 10 and 11, by type checks on their stubs."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.extras.tensorrt.bindings import CLASSES, CUDA, STUBS, TENSORRT, stubs
from tests.support.imports import ROOT

CODE = ROOT / "sonorant/extras/tensorrt"
USERS = sorted(CODE.glob("*.py"))
EXERCISE = """
import sys
import tensorrt_bindings
sys.modules["tensorrt"] = tensorrt_bindings
import sonorant.extras.tensorrt.parallel_runtime, sonorant.extras.tensorrt.builder
from sonorant.extras.tensorrt.key import missing
from sonorant.extras.tensorrt.builder import Messages
from sonorant.extras.tensorrt.builder import ProgressBars
bars = ProgressBars("decoder int8")
bars.phase_start("Building", None, 2)
bars.phase_start("Tactics", "Building", 3)
assert bars.step_complete("Tactics", 1) and bars.step_complete("Building", 0)
bars.phase_finish("Tactics")
bars.phase_finish("Building")
messages = Messages()
messages.log(tensorrt_bindings.ILogger.WARNING, "slow")
messages.log(tensorrt_bindings.ILogger.ERROR, "no such\\nkernel")
print(messages.told(), "|", missing())
"""


BOTH = set(TENSORRT)
FAULTS = [  # file, original, planted fault, versions that reject it
    ("builder.py", "ignore_mismatch=False", "ignore=False", BOTH),
    ("builder.py", "trt.BuilderFlag.TF32", "trt.BuilderFlag.FP16", {"11"}),
    ("execution.py", "trt.nptype(", "trt.nptypes(", BOTH),
    ("builder.py", "self, phase_name: str, step: int", "self, phase_name: str", BOTH),
    ("device.py", "cuda.cudaGraphInstantiate(", "cuda.cudaGraphInstanciate(", BOTH),
]


def type_check(major: str, files: list[Path], cache: Path) -> str:
    options = ["--config-file", Path(__file__).with_name("mypy.ini"), "--cache-dir", cache]
    command, env = [sys.executable, "-m", "mypy", *options, *files], os.environ | {"MYPYPATH": str(STUBS / major)}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
    # An unreadable stub or a crash does not pass.
    assert f"{len(files)} source files" in done.stdout.splitlines()[-1], done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("major", TENSORRT)
def test_every_name_and_signature_exists_and_planted_faults_are_found(major: str, tmp_path: Path) -> None:
    planted = dict.fromkeys(USERS, False)
    for number, (file, right, wrong, lacking) in enumerate(FAULTS):
        text = (CODE / file).read_text(encoding="utf-8")
        assert right in text, right
        path = tmp_path / f"planted_{number}.py"
        path.write_text(text.replace(right, wrong, 1), encoding="utf-8")
        planted[path] = major in lacking
    errors = type_check(major, list(planted), tmp_path / "cache")
    assert {path: bool(re.search(rf"\b{path.name}:\d+: error:", errors)) for path in planted} == planted, errors


def test_the_image_installs_the_checked_versions() -> None:
    image = (ROOT / "infra/tensorrt/Dockerfile").read_text(encoding="utf-8")
    for major in TENSORRT:
        assert f'"{TENSORRT[major].replace("-bindings", "")} {CUDA[major]}"' in image


def test_the_stubs_are_of_the_real_wheels(unpacked: tuple[str, Path, Path]) -> None:
    major, tensorrt, cuda = unpacked
    folder = STUBS / major
    written = {str(path.relative_to(folder)): path.read_text(encoding="utf-8") for path in folder.rglob("*.pyi")}
    assert stubs(major, tensorrt, cuda) == written
    assert all(f"class {name}" in written["tensorrt/__init__.pyi"] for name in CLASSES)


def test_the_code_works_on_the_real_classes(unpacked: tuple[str, Path, Path]) -> None:
    """Subclasses of bound classes and all module code, without a GPU."""
    _, tensorrt, cuda = unpacked
    env = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (tensorrt, cuda, ROOT)))}
    done = subprocess.run([sys.executable, "-c", EXERCISE], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("no such kernel |")
    assert "decoder int8: Building" in done.stderr
