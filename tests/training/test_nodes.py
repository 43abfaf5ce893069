"""Several nodes through PET_* variables, here processes with separate folders."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
import torch.multiprocessing

from sonorant.errors import SonorantError
from sonorant.training.distributed.launch import Node, environment, idle, interface_towards
from sonorant.training.distributed.ledger import refuse_other_copies
from sonorant.training.distributed.ranks import Ranks
from sonorant.training.run_directory import RunDirectory, read_metrics
from sonorant.training.worker import Job
from testbed.tiny_training import tiny_codes, tiny_job
from tests.support.imports import ROOT
from tests.support.ports import free_port
from tests.support.stores import damage, object_of, own_copy
from tests.support.waiting import PATIENCE, wait_until
from tests.training.trainings import assert_same, newest_state, with_splits

LAUNCH = """
import json, os, sys
from sonorant.errors import SonorantError
from sonorant.training.distributed import launch
from sonorant.training.worker import Job
if "DISTURBED" in os.environ:
    launch.WORKER = "tests.training.disturbed_worker"
try:
    launch.launch(Job(**json.load(open(sys.argv[1]))))
except SonorantError as error:
    raise SystemExit(f"error: {error}")
"""
TWO = {"PET_NNODES": "2", "PET_NODE_RANK": "1", "PET_MASTER_ADDR": "10.0.0.1"}
FIRST = {"PET_NNODES": "2", "PET_NODE_RANK": "0", "PET_NPROC_PER_NODE": "1", "PET_MASTER_ADDR": "127.0.0.1"}


def start(job: Job, **variables: str) -> subprocess.Popen[str]:
    """Start a node's launcher with these PET_*."""
    file = Path(job.run).with_name("job.json")
    file.parent.mkdir(exist_ok=True)
    job.write(file)
    env = {name: value for name, value in os.environ.items() if not name.startswith("PET_")} | variables
    env["OMP_NUM_THREADS"] = "1"  # bits depend on the number of threads
    command = [sys.executable, "-c", LAUNCH, str(file)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    return subprocess.Popen(command, cwd=ROOT, env=env, text=True, **pipes)


def start_two(*jobs: Job, **variables: str) -> list[subprocess.Popen[str]]:
    """Start two nodes of one process, or only the first, on a free port."""
    meeting = {**FIRST, "PET_MASTER_PORT": str(free_port()), **variables}
    return [start(job, **meeting | {"PET_NODE_RANK": str(rank)}) for rank, job in enumerate(jobs)]


def ends(nodes: list[subprocess.Popen[str]]) -> list[tuple[int, str]]:
    outputs = [node.communicate(timeout=PATIENCE)[0] for node in nodes]
    return [(node.returncode, output) for node, output in zip(nodes, outputs, strict=True)]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"PET_NNODES": "1:2"}, "PET_NNODES=1:2: give a number of at least 1"),
        ({"PET_NNODES": "2"}, r"PET_NODE_RANK=\(unset\): give a number from 0 to 1"),
        (TWO | {"PET_NODE_RANK": "2"}, "PET_NODE_RANK=2: give a number"),
        ({"PET_NNODES": "2", "PET_NODE_RANK": "0"}, "PET_MASTER_ADDR is unset"),
        (TWO | {"PET_MASTER_ADDR": "127.0.1.1"}, "127.0.1.1 is loopback on this node"),
        ({"PET_NPROC_PER_NODE": "0"}, "PET_NPROC_PER_NODE=0: give a number"),
    ],
)
def test_what_is_wrong_with_the_nodes_is_one_line(given: dict[str, str], says: str) -> None:
    with pytest.raises(SonorantError, match=says):
        environment(given, 4)


def test_nodes_are_what_torchrun_would_make_of_the_same_variables() -> None:
    assert Node.of({}) == Node.of({"PET_NNODES": "1", "PET_NODE_RANK": "0"}) == Node()
    assert Node.of(TWO) == Node(rank=1, count=2, host="10.0.0.1", port="29500")
    assert Node.of(TWO | {"PET_RDZV_ENDPOINT": "head:400"}) == Node(rank=1, count=2, host="head", port="400")
    assert Node.of(TWO | {"PET_MASTER_PORT": "7", "PET_RDZV_ENDPOINT": "head"}).port == "7"
    # c10d numbers nodes by arrival, but the node that writes the model must be fixed.
    assert environment(TWO | {"PET_RDZV_BACKEND": "c10d"}, 4)["PET_RDZV_BACKEND"] == "static"


def test_the_micro_batches_of_a_step_are_shared_by_all_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    assert [environment(TWO, most)["PET_NPROC_PER_NODE"] for most in (1, 2, 4, 64)] == ["1", "1", "2", "8"]
    assert environment(TWO, 4)["SONORANT_WORLD_SIZE"] == "4"
    assert environment({}, 4)["PET_NPROC_PER_NODE"] == "4"
    assert environment({"MALLOC_TRIM_THRESHOLD_": "1"}, 4)["MALLOC_TRIM_THRESHOLD_"] == "1"
    for gpus, expected in ((4, {"gpu": "8", "auto": "8", "cpu": "16", "3": "6"}), (0, {"auto": "16"})):
        monkeypatch.setattr(torch.cuda, "device_count", lambda gpus=gpus: gpus)
        found = {word: environment(TWO | {"PET_NPROC_PER_NODE": word}, 2) for word in expected}
        assert {word: env["SONORANT_WORLD_SIZE"] for word, env in found.items()} == expected
    with pytest.raises(SonorantError, match="PET_NPROC_PER_NODE=gpu: torch finds no GPU here"):
        environment({"PET_NPROC_PER_NODE": "gpu"}, 2)


def test_processes_and_gpus_with_nothing_to_do_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def said(given: dict[str, str], most: int) -> str:
        return idle(environment(given, most), most) or ""

    monkeypatch.setattr(torch.cuda, "device_count", lambda: 8)
    idle_processes = said(TWO | {"PET_NPROC_PER_NODE": "8"}, 2)
    assert "14 of 16 processes have nothing to do: a step has 2 micro-batches" in idle_processes
    assert "6 of this machine's 8 GPUs are not used" in said({}, 2)
    assert "multiple of 16" in said(TWO, 4)
    assert said({}, 8) == said(TWO, 16) == said({"PET_NPROC_PER_NODE": "2"}, 8) == ""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    assert said({}, 1) == ""


@pytest.mark.long
def test_a_training_told_to_stop_before_it_began_has_stopped(features: Path, tmp_path: Path) -> None:
    """Without the second node training cannot begin."""
    node = start(tiny_job("acoustic", features, tmp_path), **FIRST, PET_MASTER_PORT=str(free_port()))
    children = psutil.Process(node.pid).children
    wait_until(lambda: any(child.cpu_times().user > 0.3 for child in children()) or node.poll() is not None)
    node.send_signal(signal.SIGTERM)
    ((status, output),) = ends([node])
    assert status == 1 and "acoustic: stopped before training began" in output, output


@pytest.mark.skipif(sys.platform != "linux", reason="looks at Linux's interfaces")
def test_gloo_is_told_the_interface_that_leads_to_the_first_node() -> None:
    """gloo's default is the interface of the host name, often loopback."""
    assert interface_towards("127.0.0.1") == "lo"
    assert interface_towards("no.such.host.invalid") is None
    assert environment(TWO | {"PET_MASTER_ADDR": "127.0.0.1"}, 4)["GLOO_SOCKET_IFNAME"] == "lo"
    assert environment(TWO | {"GLOO_SOCKET_IFNAME": "ib0"}, 4)["GLOO_SOCKET_IFNAME"] == "ib0"


@pytest.mark.long
def test_nodes_that_share_no_folder_stop_together_resume_and_equal_one_machine(features: Path, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"steps": 30, "validate_every": 30, "checkpoint_every": 30}
    folders = [tmp_path / name for name in ("first", "second", "fresh", "alone")]
    first, second, fresh, alone = (tiny_job("acoustic", features, folder, **settings) for folder in folders)
    nodes = start_two(first, second, DISTURBED="held", HELD_AT="20")
    run = RunDirectory(folders[0] / "run")
    wait_until(lambda: bool(read_metrics(run.metrics)) or any(node.poll() is not None for node in nodes))
    nodes[1].send_signal(signal.SIGTERM)
    for status, output in ends(nodes):
        assert status == 1 and "stopped and saved at step" in output, output
    stopped = run.status()["step"]
    assert 0 < stopped < 30
    assert [path.name for path in folders[1].iterdir()] == ["job.json"], "only the first node has a run directory"

    outputs = ends(start_two(first, fresh))  # a replaced machine
    assert [status for status, _ in outputs] == [0, 0], outputs
    assert f"resuming acoustic from its checkpoint at step {stopped}" in outputs[0][1]
    assert [path.name for path in folders[2].iterdir()] == ["job.json"]

    ((status, output),) = ends([start(alone, PET_NPROC_PER_NODE="2")])
    assert status == 0, output
    assert_same(*(newest_state(Path(job.run)) for job in (first, alone)))


@pytest.mark.long
def test_a_node_that_never_comes_is_waited_for_only_so_long(features: Path, tmp_path: Path) -> None:
    ((status, output),) = ends(start_two(tiny_job("acoustic", features, tmp_path), PET_RDZV_CONF="timeout=3"))
    assert status == 1
    assert "error: 2 nodes could not connect at 127.0.0.1:" in output and "PET_NODE_RANK" in output
    assert "Traceback" not in output


def test_every_difference_between_two_nodes_has_its_mend(features: Path, tmp_path: Path) -> None:
    flipped = own_copy(features, tmp_path / "copies")
    damage(object_of(flipped, "mels"))
    codes = tiny_codes(features)
    other = Path(shutil.copytree(codes, tmp_path / "other-codes"))
    (other / "header.json").write_text((codes / "header.json").read_text() + " ")
    same = {"features": features, "codes": codes, "fingerprint": "f", "code": "code"}
    split = with_splits(features, tmp_path / "split", lambda number, old: old if number else "test")
    cases: list[tuple[dict[str, Any], list[str]]] = [
        ({}, []),
        ({"features": split, "codes": None}, ["its features (", f"there: dvc pull {features}"]),
        ({"features": flipped, "codes": None}, ["damaged; run: sonorant store check", "dvc pull"]),
        ({"fingerprint": "g"}, ["its settings (fingerprint g)"]),
        ({"code": "other code"}, ["its code (hash other code)", "check out the same commit"]),
        ({"features": tmp_path}, ["header.json: no such file"]),
        ({"codes": other}, ["its codes (", f"there: dvc pull {codes}"]),
    ]
    torch.multiprocessing.spawn(_one_of_two, (same, [case for case, _ in cases], tmp_path), nprocs=2)
    for said, (_, words) in zip(json.loads((tmp_path / "said").read_text()), cases, strict=True):
        assert bool(said) == bool(words) and all(word in said for word in words), said


def _one_of_two(rank: int, same: dict[str, Any], cases: list[dict[str, Any]], folder: Path) -> None:
    """The second node has the differences of each case from the first."""
    os.environ["LOCAL_WORLD_SIZE"] = "1"
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/group", rank=rank, world_size=2)
    ranks, said = Ranks(rank, 2, 0, torch.device("cpu")), []
    for case in cases:
        own = case if rank else {name: value for name, value in case.items() if value is None}
        try:
            refuse_other_copies(**same | own, ranks=ranks)
            said.append("")
        except SonorantError as error:
            said.append(str(error))
    if not rank:
        (folder / "said").write_text(json.dumps(said))
    torch.distributed.destroy_process_group()
