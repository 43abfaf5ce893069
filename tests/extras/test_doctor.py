import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from sonorant.extras.doctor import gradient_test, machine, software, storage
from sonorant.extras.doctor.finding import Finding
from testbed.tiny_training import tiny_features
from tests.support.imports import ROOT

FIRST = ("torch", "torchgen", "functorch", "numpy", "numpy.libs", "typing_extensions.py", "sympy", "mpmath", "networkx",
         "jinja2", "markupsafe", "filelock", "fsspec", "setuptools", "nvidia", "triton")  # fmt: skip
"""torch, numpy and their imports."""


def doctor(*words: str, python: tuple[str, ...] = (), **env: str) -> subprocess.CompletedProcess[str]:
    set_here = ("PET_", "OMP_", "GLOO_", "NCCL_")
    env = {name: value for name, value in os.environ.items() if not name.startswith(set_here)} | env
    command = [sys.executable, *python, "-m", "sonorant.cli.main", "doctor", *words]
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)


def found(done: subprocess.CompletedProcess[str]) -> dict[str, Finding]:
    findings = json.loads(done.stdout)["findings"]
    return {each["name"]: Finding(**{key: each[key] for key in each if key != "area"}) for each in findings}


def test_it_checks_everything_here(tmp_path: Path) -> None:
    features, runs = tiny_features(tmp_path), tmp_path / "runs"
    runs.mkdir()
    # On one of several nodes the self-test must not wait for the other nodes.
    nodes = {"PET_NNODES": "2", "PET_NODE_RANK": "1", "PET_MASTER_ADDR": "127.0.0.1"}
    done = doctor("--json", "--data", str(features), "--runs", str(runs), **nodes)
    seen = found(done)
    assert done.stderr == ""
    assert {each["area"] for each in json.loads(done.stdout)["findings"]} == {"versions", "machine", "storage", "ranks"}
    assert done.returncode == any(finding.state == "problem" for finding in seen.values())
    assert "gradients are averaged" in seen["2 ranks, gloo"].value
    assert "node 1 of 2" in seen["rendezvous"].value
    assert "MiB/s" in seen[f"{runs} writing"].value
    assert "MiB/s" in seen[f"{features} reading"].value
    assert list(runs.iterdir()) == []
    assert all(finding.hint for finding in seen.values() if finding.state in ("warning", "problem"))


def test_a_problem_is_in_the_table_with_its_hint_and_status_1() -> None:
    done = doctor("--no-ranks", PET_NNODES="many")
    assert done.returncode == 1
    assert "problem  rendezvous" in done.stdout
    assert "-> set them as described in docs/training.md" in done.stdout
    assert "not run  self-test" in done.stdout


def test_torch_and_numpy_are_enough(tmp_path: Path) -> None:
    packages = Path(torch.__file__).parents[1]
    for name in FIRST:
        if (packages / name).exists():
            (tmp_path / name).symlink_to(packages / name)
    for info in packages.glob("*.dist-info"):
        if info.name.split("-")[0] in FIRST:
            (tmp_path / info.name).symlink_to(info)
    done = doctor("--no-ranks", "--json", python=("-S",), PYTHONPATH=str(tmp_path))
    assert done.stderr == ""
    assert (found(done)["ONNX Runtime"].state, found(done)["ONNX Runtime"].value) == ("not run", "not installed")
    assert "not installed" in found(done)["packages"].value


def test_without_torch_it_says_so(tmp_path: Path) -> None:
    done = doctor(python=("-S",), PYTHONPATH=str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    assert "torch  not installed" in done.stdout


EXAMINE = """
import json, sys
from dataclasses import asdict
from pathlib import Path
from sonorant.extras.doctor.storage import examine_write
print(json.dumps({"findings": [asdict(finding) for finding in examine_write(Path(sys.argv[1]))]}))
"""


@pytest.mark.parametrize(
    ("options", "check", "value", "hint"),
    [
        ("size=8m", "free", "0.0 GiB", "free some space"),
        ("size=8m,nr_inodes=2", "writing", "No space left", "free some space"),
        ("ro,size=8g", "writing", "Read-only", ""),
    ],
)
def test_a_small_full_or_read_only_disk_is_a_problem(
    tmp_path: Path, options: str, check: str, value: str, hint: str
) -> None:
    if shutil.which("unshare") is None or subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode:
        pytest.skip("needs mount namespaces (unshare -rm)")
    script = f'mount -t tmpfs -o {options} none "$0" && exec "$1" -c "$2" "$0"'
    command = ["unshare", "-rm", "sh", "-c", script, tmp_path, sys.executable, EXAMINE]
    finding = found(subprocess.run(command, cwd=ROOT, capture_output=True, text=True))[f"{tmp_path} {check}"]
    assert finding.state == "problem" and value in finding.value and hint in finding.hint


def test_features_that_are_not_there_are_found(tmp_path: Path) -> None:
    (finding,) = storage.examine_read(tmp_path / "none")
    assert (finding.state, "dvc repro" in finding.hint) == ("problem", True)


@pytest.mark.parametrize(
    ("finding", "state", "words"),
    [
        (software.check_no_driver("none here", "13.0"), "warning", "none here"),
        (software.check_torch("580.65", None, False), "problem", "but there is a driver"),
        (software.check_torch("550.54", "13.0", False), "problem", "with driver 550.54"),
        (software.check_onnxruntime(["onnxruntime", "onnxruntime-gpu"]), "problem", "overwrite"),
        (machine.check_cores(16, 2.0), "warning", "quota is 2.0"),
        (machine.check_memory(2**29), "warning", "0.5 GiB"),
        (machine.check_shared_memory(2**26, 8), "problem", "64 MiB"),
        (machine.check_meeting({"PET_NNODES": "2", "PET_NODE_RANK": "1", "PET_MASTER_ADDR": "nowhere.invalid"}),
         "problem", "nowhere.invalid"),
        (storage.check_free("runs", 2**31), "warning", "2.0 GiB"),
        (gradient_test.judge("2", {"ranks": 2, "difference": float("nan"), "seconds": []}), "problem", "nan"),
    ],
)  # fmt: skip
def test_a_fault_is_found_and_nothing_else(finding: Finding, state: str, words: str) -> None:
    assert (finding.state, words in finding.value) == (state, True), finding


def test_packages_other_than_the_locked_are_named(tmp_path: Path) -> None:
    lock = tmp_path / "requirements.lock"
    lock.write_text("# seen working\nnumpy==0.1\nno-such-package==1\n")
    finding = software.check_lock(lock)
    assert finding.state == "warning"
    assert finding.value.startswith("numpy ")
    assert software.check_lock(tmp_path / "none").state == "not run"
    assert software.check_lock(ROOT / "requirements.lock").state in ("ok", "warning")


def test_cores_are_those_of_the_container(tmp_path: Path) -> None:
    (tmp_path / "cpu.max").write_text("150000 100000\n")
    assert machine.cgroup_cores(tmp_path) == 1.5
    (tmp_path / "cpu.max").write_text("max 100000\n")
    assert machine.cgroup_cores(tmp_path) is None


def test_ranks_that_cannot_meet_are_found() -> None:
    finding = gradient_test.check("cpu", 2, {**os.environ, "GLOO_SOCKET_IFNAME": "nosuch0"})
    assert finding.state == "problem"
    assert "ended with 1" in finding.value


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_gpus_are_looked_at() -> None:
    assert [finding.state for finding in machine.examine() if finding.name == "cuda:0"] != ["problem"]
    assert "gradients are averaged" in gradient_test.check("cuda", torch.cuda.device_count(), os.environ).value
