import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from sonorant.extras.doctor import gradient_test, machine, software, storage
from sonorant.extras.doctor.examination import Finding, counts, ok, table, warning
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
    return {finding["name"]: Finding(**finding) for finding in json.loads(done.stdout)["findings"]}


def test_it_looks_at_everything_here(tmp_path: Path) -> None:
    features, runs = tiny_features(tmp_path), tmp_path / "runs"
    runs.mkdir()
    # On one of several nodes the self-test must not wait for others.
    nodes = {"PET_NNODES": "2", "PET_NODE_RANK": "1", "PET_MASTER_ADDR": "127.0.0.1"}
    done = doctor("--json", "--data", str(features), "--runs", str(runs), **nodes)
    seen = json.loads(done.stdout)
    assert done.stderr == ""
    areas = {"versions", "machine", "storage", "ranks"}
    assert {each["area"] for each in seen["findings"]} == areas
    assert done.returncode == (1 if seen["counts"]["problem"] else 0)
    assert "gradients are averaged" in found(done)["2 ranks, gloo"].value
    assert "node 1 of 2" in found(done)["rendezvous"].value
    assert "MiB/s" in found(done)[f"{runs} writing"].value
    assert "MiB/s" in found(done)[f"{features} reading"].value
    assert list(runs.iterdir()) == []
    assert all(each["hint"] for each in seen["findings"] if each["state"] in ("warning", "problem"))


def test_the_table_says_the_same_and_status_1_is_a_problem() -> None:
    done = doctor("--no-ranks", OMP_NUM_THREADS="many")
    assert done.returncode == 1
    assert "problem  threads" in done.stdout
    assert "-> unset OMP_NUM_THREADS" in done.stdout
    assert "not run  self-test" in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 132


def test_a_finding_that_needs_something_says_what() -> None:
    with pytest.raises(ValueError, match="needs a hint"):
        warning("machine", "cores", "few", "")
    findings = [ok("machine", "cores", "2"), warning("machine", "load", "9", "wait")]
    assert counts(findings) == {"ok": 1, "warning": 1, "problem": 0, "not run": 0}
    assert "-> wait" in table(findings)


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


LOOK = """
import json, sys
from dataclasses import asdict
from pathlib import Path
from sonorant.extras.doctor.storage import examine_write
print(json.dumps({"findings": [asdict(finding) for finding in examine_write(Path(sys.argv[1]))]}))
"""


def on_a_disk_of_its_own(tmp_path: Path, options: str) -> dict[str, Finding]:
    """Findings about a small disk of its own mount."""
    if shutil.which("unshare") is None or subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode:
        pytest.skip("needs mount namespaces (unshare -rm)")
    script = f'mount -t tmpfs -o {options} none "$0" && exec "$1" -c "$2" "$0"'
    command = ["unshare", "-rm", "sh", "-c", script, tmp_path, sys.executable, LOOK]
    seen = found(subprocess.run(command, cwd=ROOT, capture_output=True, text=True))
    return {name.removeprefix(str(tmp_path)).strip(): finding for name, finding in seen.items()}


def test_a_small_disk_is_found(tmp_path: Path) -> None:
    seen = on_a_disk_of_its_own(tmp_path, "size=8m")
    assert (seen["free"].state, seen["writing"].state) == ("problem", "ok")


@pytest.mark.parametrize(
    ("options", "value", "hint"),
    [("size=8m,nr_inodes=2", "No space left", "make room"), ("ro,size=8g", "Read-only", "")],
)
def test_a_full_or_read_only_disk_is_found(tmp_path: Path, options: str, value: str, hint: str) -> None:
    writing = on_a_disk_of_its_own(tmp_path, options)["writing"]
    assert writing.state == "problem" and value in writing.value and hint in writing.hint


def test_features_that_are_not_there_are_found(tmp_path: Path) -> None:
    (finding,) = storage.examine_read(tmp_path / "none")
    assert (finding.state, "dvc repro" in finding.hint) == ("problem", True)


@pytest.mark.parametrize(
    ("finding", "state", "words"),
    [
        (software.check_driver((550, 54, 15), (12, 8)), "ok", "550.54.15"),
        (software.check_driver((550, 54, 15), (13, 0)), "problem", "needs 580"),
        (software.check_driver((), (13, 0), "none here"), "warning", "none here"),
        (software.check_torch((580,), ()), "problem", "beside a driver"),
        (software.check_python((3, 14)), "problem", "3.14"),
        (software.check_onnxruntime(["onnxruntime", "onnxruntime-gpu"]), "problem", "overwrite"),
        (machine.check_cores(16, 2.0), "warning", "2.0 of them"),
        (machine.check_threads({"OMP_NUM_THREADS": "8", "PET_NPROC_PER_NODE": "4"}, 16, 0), "warning", "16 cores"),
        (machine.check_threads({"OMP_NUM_THREADS": "4", "PET_NPROC_PER_NODE": "4"}, 16, 0), "ok", "16 cores"),
        (machine.check_memory(2**29), "warning", "0.5 GiB"),
        (machine.check_shared_memory(2**26, 0), "warning", "64 MiB"),
        (machine.check_shared_memory(2**26, 8), "problem", "64 MiB"),
        (machine.check_meeting({"PET_NNODES": "2", "PET_NODE_RANK": "1", "PET_MASTER_ADDR": "nowhere.invalid"}),
         "problem", "nowhere.invalid"),
        (storage.check_free("runs", 2**31), "warning", "2.0 GiB"),
        (gradient_test.judge("2", {"ranks": 2, "difference": 0.1, "seconds": []}), "problem", "1.0e-01"),
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


def test_a_containers_share_is_what_counts(tmp_path: Path) -> None:
    (tmp_path / "cpu.max").write_text("150000 100000\n")
    (tmp_path / "memory.max").write_text(f"{2**30}\n")
    (tmp_path / "memory.current").write_text(f"{2**29}\n")
    assert machine.cgroup_cores(tmp_path) == 1.5
    assert machine.available_memory(limits=tmp_path) == 2**29
    (tmp_path / "cpu.max").write_text("max 100000\n")
    assert machine.cgroup_cores(tmp_path) is None


def test_a_kernel_runs_on_its_own_major_and_newer_minors() -> None:
    assert machine.runs_on(8, 9, {"sm_80", "sm_90"})
    assert machine.runs_on(9, 0, {"sm_90a"})
    assert machine.runs_on(12, 0, {"sm_90", "compute_100"})
    assert not machine.runs_on(7, 0, {"sm_75", "sm_80"})
    assert not machine.runs_on(12, 0, {"sm_80", "sm_90", "sm_100"})


def test_ranks_that_cannot_meet_are_found() -> None:
    finding = gradient_test.check("cpu", 2, {**os.environ, "GLOO_SOCKET_IFNAME": "nosuch0"})
    assert finding.state == "problem"
    assert "ended with 1" in finding.value


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_gpus_are_looked_at() -> None:
    findings = list(machine.examine(os.environ))
    assert [finding for finding in findings if finding.name == "cuda:0"]
    assert "gradients are averaged" in gradient_test.check("cuda", torch.cuda.device_count(), os.environ).value
