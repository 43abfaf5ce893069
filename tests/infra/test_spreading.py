"""Preparation on Slurm and Kubernetes: the nodes' workers do the work, and the manifest's parts find each other."""

import copy
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from sonorant.processes import SCHEDULER
from tests.flows.conftest import dvc
from tests.flows.test_workers import STAGE, STAGES
from tests.infra.slurm_stand_ins import Slurm
from tests.infra.test_kubernetes import refusals
from tests.support.imports import ROOT
from tests.support.waiting import PATIENCE

SCRIPT = ROOT / "infra/slurm/prepare.sbatch"
GRAPH = yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"]


@pytest.fixture
def found() -> dict[str, dict[str, Any]]:
    """The documents by kind and name."""
    documents = yaml.safe_load_all((ROOT / "infra/kubernetes/prepare.yaml").read_text())
    return {f"{each['kind']} {each['metadata']['name']}": each for each in documents}


def test_kubernetes_knows_every_field(found: dict[str, dict[str, Any]]) -> None:
    assert len(found) == 4
    for manifest in found.values():
        assert refusals(manifest) == []
        wrong = copy.deepcopy(manifest)
        wrong["spec"]["notAField"] = True
        assert refusals(wrong)


def test_stage_scheduler_and_workers_find_each_other_and_nobody_else_does(found: dict[str, dict[str, Any]]) -> None:
    service, policy = found["Service sonorant-prepare"]["spec"], found["NetworkPolicy sonorant-prepare"]["spec"]
    stage = found["Job sonorant-prepare"]["spec"]["template"]
    workers = found["Job sonorant-prepare-workers"]["spec"]["template"]
    assert service["selector"] == stage["metadata"]["labels"] != workers["metadata"]["labels"]
    label = {"matchLabels": {"app": "sonorant-prepare"}}
    assert policy["podSelector"] == label and policy["ingress"] == [{"from": [{"podSelector": label}]}]
    [scheduler], [main] = stage["spec"]["initContainers"], stage["spec"]["containers"]
    assert scheduler["restartPolicy"] == "Always", "else the stage would wait for it to end"
    ports = [port["port"] for port in service["ports"]]
    assert [port["containerPort"] for port in scheduler["ports"]] == ports
    assert main["env"] == [{"name": SCHEDULER, "value": f"tcp://127.0.0.1:{ports[0]}"}]
    [worker] = workers["spec"]["containers"]
    address, processes = worker["command"][4], worker["command"][6]
    assert address == f"tcp://{found['Service sonorant-prepare']['metadata']['name']}:{ports[0]}"
    assert processes == worker["resources"]["requests"]["cpu"], "a core each"


def test_the_pods_see_the_same_folders_and_are_confined(found: dict[str, dict[str, Any]]) -> None:
    pods = [
        found[f"Job {name}"]["spec"]["template"]["spec"] for name in ("sonorant-prepare", "sonorant-prepare-workers")
    ]
    stage, worker = (pod["containers"][0] for pod in pods)
    assert stage["volumeMounts"] == worker["volumeMounts"] and stage["image"] == worker["image"]
    assert {mount["mountPath"] for mount in stage["volumeMounts"]} == {
        "/recordings",
        "/sonorant/data",
        "/sonorant/runs",
    }
    for pod in pods:
        assert pod["securityContext"]["runAsNonRoot"] is True
        for container in [*pod["containers"], *pod.get("initContainers", [])]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
            }


def test_the_command_is_the_stages(found: dict[str, dict[str, Any]]) -> None:
    command = found["Job sonorant-prepare"]["spec"]["template"]["spec"]["containers"][0]["command"]
    assert command == shlex.split(GRAPH["prepare"]["cmd"])


@pytest.mark.parametrize("name", ["scheduler", "worker"])
def test_the_commands_of_the_manifest_exist(found: dict[str, dict[str, Any]], name: str) -> None:
    pod = found[f"Job sonorant-prepare{'-workers' if name == 'worker' else ''}"]["spec"]["template"]["spec"]
    command = (pod["containers"] if name == "worker" else pod["initContainers"])[0]["command"]
    done = subprocess.run([sys.executable, *command[1:4], "--help"], cwd=ROOT, capture_output=True, text=True)
    assert all(word in done.stdout for word in command[4:] if word.startswith("--")), done.stderr


@pytest.fixture
def slurm(tmp_path: Path) -> Iterator[Slurm]:
    """A stand-in cluster, emptied afterwards."""
    folder = tmp_path / "slurm"
    folder.mkdir()
    cluster = Slurm(folder)
    yield cluster
    cluster.end()


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_a_job_of_two_nodes_spreads_a_stage_and_leaves_nothing_running(
    slurm: Slurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("distributed", reason="distributed is not installed (the extra cluster)")
    root = tmp_path / "project"
    (root / "runs").mkdir(parents=True)
    (root / "dvc.yaml").write_text(STAGES)
    (root / "stage.py").write_text(STAGE)
    (root / ".dvcignore").write_text("runs\n")
    dvc(root, "init", "-q", "--no-scm")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    job = slurm.submit(root, str(SCRIPT), "prepare", nodes=2, processes=1)
    said, _ = job.communicate(timeout=PATIENCE * 4)  # returns when all that held its output has ended
    assert job.returncode == 0, said
    assert (root / "runs/where").read_text() == "workers"
    # The stage may be over before the last of them has begun.
    assert 1 <= said.count("Registered to") <= 2 * len(os.sched_getaffinity(0)), said


@pytest.mark.long
def test_a_job_without_a_stage_is_refused(slurm: Slurm) -> None:
    job = slurm.submit(ROOT, str(SCRIPT), nodes=1, processes=1)
    said, _ = job.communicate(timeout=PATIENCE)
    assert (job.returncode, said.count("\n")) == (2, 1) and "name a stage of dvc.yaml" in said


def test_bash_reads_the_script() -> None:
    assert subprocess.run([shutil.which("bash") or "bash", "-n", SCRIPT]).returncode == 0
