"""`sonorant doctor`: it looks at this machine for real, and finds what is planted."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from sonorant.extras.doctor import devices, machine, network, requirements, storage, versions
from sonorant.extras.doctor import gradient_test as self_test
from sonorant.extras.doctor.examination import Finding, counts, ok, table, warning
from sonorant.extras.doctor.versions import Driver
from sonorant.training.distributed.launch import Node
from testbed.tiny_training import tiny_features
from tests.support.imports import ROOT

FIRST = ("torch", "torchgen", "functorch", "numpy", "numpy.libs", "typing_extensions.py", "sympy", "mpmath", "networkx",
         "jinja2", "markupsafe", "filelock", "fsspec", "setuptools", "nvidia", "triton")  # fmt: skip
"""torch, numpy and what torch imports."""


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
    # As on one of several nodes: the self-test must not wait for the others.
    nodes = {"PET_NNODES": "2", "PET_NODE_RANK": "1", "PET_MASTER_ADDR": "127.0.0.1"}
    done = doctor("--json", "--data", str(features), "--runs", str(runs), **nodes)
    seen = json.loads(done.stdout)
    assert done.stderr == ""
    areas = {"versions", "devices", "machine", "storage", "network", "ranks"}
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
    assert found(done)["TensorRT"].value == "not installed"
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
    """What is found of a small disk that only the looker sees."""
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


def test_the_file_system_is_that_of_the_longest_mount_point(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(f"/dev/a / ext4 rw 0 0\nserver:/b {tmp_path} nfs4 rw 0 0\nc {tmp_path}2 tmpfs rw 0 0\n")
    assert storage.file_system_kind(tmp_path, mounts) == "nfs4"
    assert storage.file_system_kind(Path("/"), mounts) == "ext4"


@pytest.mark.parametrize(
    ("finding", "state", "words"),
    [
        (versions.check_driver(Driver(version=(550, 54, 15)), (12, 8)), "ok", "550.54.15"),
        (versions.check_driver(Driver(version=(550, 54, 15)), (13, 0)), "problem", "needs 580"),
        (versions.check_driver(Driver(version=(470, 1)), (12, 8)), "problem", "needs 525.60.13"),
        (versions.check_driver(Driver(version=None, why="none here"), (13, 0)), "warning", "none here"),
        (versions.check_driver(Driver(version=(999,)), (99, 0)), "not run", "no requirement is known"),
        (versions.check_cudnn((9, 10, 2), (13, 0)), "ok", "9.10.2"),
        (versions.check_cudnn((8, 9, 7), (13, 0)), "problem", "needs 9"),
        (versions.check_cudnn(None, (13, 0)), "problem", "none"),
        (versions.check_linked_cuda({"cudart": 13, "cudnn": 9}, (13, 0)), "ok", "CUDA 13"),
        (versions.check_linked_cuda({"cudart": 12, "cudnn": 9}, (13, 0)), "warning", "links CUDA 12"),
        (versions.check_tensorrt((10, 14, 1), 10), "ok", "10.14.1"),
        (versions.check_tensorrt((11, 2, 0), 10), "warning", "links 10"),
        (versions.check_tensorrt((8, 6, 1), None), "problem", "8.6.1"),
        (versions.check_python((3, 14, 0)), "problem", "3.14.0"),
        (machine.check_cores(16, 16, 2.0, {}), "warning", "2.0 of them"),
        (machine.check_threads({"OMP_NUM_THREADS": "8", "PET_NPROC_PER_NODE": "4"}, 16, 0), "warning", "16 cores"),
        (machine.check_threads({"OMP_NUM_THREADS": "4", "PET_NPROC_PER_NODE": "4"}, 16, 0), "ok", "16 cores"),
        (machine.check_load(30.0, 16), "warning", "30.0"),
        (machine.check_memory(2**29), "warning", "0.5 GiB"),
        (machine.check_shared_memory(2**26, 0), "warning", "64 MiB"),
        (machine.check_shared_memory(2**26, 8), "problem", "64 MiB"),
        (machine.check_open_files(256), "warning", "256"),
        (machine.check_clock(False), "warning", "not synchronised"),
        (machine.check_locale("ascii"), "problem", "ascii"),
        (network.check_named("gloo", "GLOO_SOCKET_IFNAME", "eth9", {"eth0": "10.0.0.1"}), "problem", "eth9"),
        (network.check_named("NCCL", "NCCL_SOCKET_IFNAME", "eth", {"eth0": "10.0.0.1"}), "ok", "eth0 10.0.0.1"),
        (network.check_named("NCCL", "NCCL_SOCKET_IFNAME", "=eth", {"eth0": "10.0.0.1"}), "problem", "=eth"),
        (network.check_rendezvous(Node(rank=1, count=2, host="nowhere.invalid")), "problem", "nowhere.invalid"),
        (storage.check_free("runs", 2**31), "warning", "2.0 GiB"),
        (self_test.judge("2", {"ranks": 2, "difference": 0.1, "seconds": []}), "problem", "1.0e-01"),
        (self_test.judge("2", {"ranks": 2, "difference": float("nan"), "seconds": []}), "problem", "nan"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_found_and_what_is_right_is_not(finding: Finding, state: str, words: str) -> None:
    assert (finding.state, words in finding.value) == (state, True), finding


def test_a_wrong_requirement_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(requirements.DRIVER_OF_CUDA, 13, (9999,))
    assert versions.check_driver(Driver(version=(580, 65, 6)), (13, 0)).state == "problem"


@pytest.mark.parametrize(
    ("text", "version"),
    [("2.13.0+cpu", (2, 13, 0)), ("580.65.06", (580, 65, 6)), ("1.25.0.dev2026", (1, 25, 0)), ("11.2rc1", (11, 2))],
)
def test_versions_are_read_and_compared_as_numbers(text: str, version: tuple[int, ...]) -> None:
    assert requirements.parse(text) == version
    assert requirements.at_least(version, version)
    assert not requirements.at_least((9, 9), (10,))
    assert requirements.at_least((580,), (580, 0, 0))
    assert (versions.cudnn_version(91002), versions.cudnn_version(8902)) == ((9, 10, 2), (8, 9, 2))


def test_the_libraries_that_a_library_links_are_read_from_it(tmp_path: Path) -> None:
    library = tmp_path / "provider.so"
    library.write_bytes(b"\x7fELF\0libcudart.so.13\0libcudnn.so.9\0libnvinfer.so.10\0libm.so.6\0")
    assert versions.linked(library) == {"cudart": 13, "cudnn": 9, "nvinfer": 10}


def test_packages_other_than_the_locked_are_named(tmp_path: Path) -> None:
    lock = tmp_path / "requirements.lock"
    lock.write_text("# seen working\nnumpy==0.1\nno-such-package==1\n")
    finding = versions.check_lock(lock)
    assert finding.state == "warning"
    assert finding.value.startswith("numpy ")
    assert versions.check_lock(tmp_path / "none").state == "not run"
    assert versions.check_lock(ROOT / "requirements.lock").state in ("ok", "warning")


def test_a_containers_share_is_what_counts(tmp_path: Path) -> None:
    (tmp_path / "cpu.max").write_text("150000 100000\n")
    (tmp_path / "memory.max").write_text(f"{2**30}\n")
    (tmp_path / "memory.current").write_text(f"{2**29}\n")
    assert machine.cgroup_cores(tmp_path) == 1.5
    assert machine.available_memory(limits=tmp_path) == 2**29
    (tmp_path / "cpu.max").write_text("max 100000\n")
    assert machine.cgroup_cores(tmp_path) is None


def test_a_kernel_runs_on_its_own_major_and_newer_minors() -> None:
    assert devices.runs_on(8, 9, {"sm_80", "sm_90"})
    assert devices.runs_on(9, 0, {"sm_90a"})
    assert devices.runs_on(12, 0, {"sm_90", "compute_100"})
    assert not devices.runs_on(7, 0, {"sm_75", "sm_80"})
    assert not devices.runs_on(12, 0, {"sm_80", "sm_90", "sm_100"})


def test_ranks_that_cannot_meet_are_found() -> None:
    finding = self_test.check("cpu", 2, {**os.environ, "GLOO_SOCKET_IFNAME": "nosuch0"})
    assert finding.state == "problem"
    assert "ended with 1" in finding.value


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_gpus_are_looked_at() -> None:
    findings = list(devices.examine())
    assert [finding for finding in findings if finding.name == "cuda:0"]
    assert "gradients are averaged" in self_test.check("cuda", torch.cuda.device_count(), os.environ).value
