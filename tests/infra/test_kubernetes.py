"""Manifests against Kubernetes' schemas, and numbers and names that must agree, which schemas do not cover."""

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from sonorant.processes import SCHEDULER
from sonorant.training.distributed.launch import JOIN_SECONDS, SHUTDOWN_SECONDS, Node, environment

FOLDER = Path(__file__).parents[2] / "infra/kubernetes"
PREPARE = FOLDER / "prepare.yaml"
STAGES = yaml.safe_load((FOLDER.parents[1] / "dvc.yaml").read_text())["stages"]

TRAINJOB = {
    "spec": {"runtimeRef", "trainer", "runtimePatches"},
    "runtimeRef": {"apiGroup", "kind", "name"},
    "trainer": {"args", "command", "env", "image", "numNodes", "numProcPerNode", "resourcesPerNode"},
    "patched pod": {"affinity", "containers", "imagePullSecrets", "initContainers", "nodeSelector", "schedulingGates",
                    "securityContext", "serviceAccountName", "terminationGracePeriodSeconds", "tolerations", "volumes"},
    "patched container": {"env", "name", "securityContext", "volumeMounts"},
}  # fmt: skip
"""Fields that a manifest may use, from manifests/base/crds/trainer.kubeflow.org_trainjobs.yaml of kubeflow/trainer
2.3.0."""
RESERVED = {"PET_NNODES", "PET_NPROC_PER_NODE", "PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT"}
"""Set by Kubeflow's torch plugin on every node, rejected in a TrainJob's own env (pkg/constants, same version)."""


def documents(name: str) -> dict[str, Any]:
    return {found["kind"]: found for found in yaml.safe_load_all((FOLDER / name).read_text())}


@pytest.fixture
def job() -> dict[str, Any]:
    return documents("training/train-job.yaml")["Job"]


def refusals(manifest: dict[str, Any]) -> list[str]:
    """Violations of the newest Kubernetes schemas in the validator."""
    kubernetes_validate = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")
    try:
        kubernetes_validate.validate(manifest, kubernetes_validate.latest_version(), strict=True)
    except kubernetes_validate.ValidationError as error:
        return [str(error)]
    return []


MANIFESTS = ["training/train-job.yaml", "volume.yaml", "prepare.yaml", "network-policies.yaml"]


@pytest.mark.parametrize("name", MANIFESTS)
def test_kubernetes_knows_every_field(name: str) -> None:
    for manifest in yaml.safe_load_all((FOLDER / name).read_text()):
        assert refusals(manifest) == []
        manifest["spec"]["notAField"] = True
        assert refusals(manifest)


def pod_of(job: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any], dict[str, str]]:
    pod = job["spec"]["template"]["spec"]
    container = pod["containers"][0]
    return pod, container, {each["name"]: each.get("value", "") for each in container["env"]}


def test_every_pod_is_a_node_that_the_launcher_accepts(job: dict[str, Any]) -> None:
    _, container, env = pod_of(job)
    rank = next(each for each in container["env"] if each["name"] == "PET_NODE_RANK")
    assert "job-completion-index" in rank["valueFrom"]["fieldRef"]["fieldPath"]
    for index in range(job["spec"]["completions"]):
        node = Node.of({**env, "PET_NODE_RANK": str(index)})
        assert (node.rank, node.count) == (index, job["spec"]["completions"])
    assert job["spec"]["parallelism"] == job["spec"]["completions"]
    assert env["PET_NPROC_PER_NODE"] == container["resources"]["limits"]["nvidia.com/gpu"]


def test_the_first_pod_is_found_by_its_name_and_by_the_jobs_pods_alone(job: dict[str, Any]) -> None:
    found = documents("training/train-job.yaml")
    pod, container, env = pod_of(job)
    name, service = job["metadata"]["name"], found["Service"]
    label = {"batch.kubernetes.io/job-name": name}
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["publishNotReadyAddresses"] is True
    assert service["spec"]["selector"] == label
    assert pod["subdomain"] == service["metadata"]["name"]
    assert env["PET_MASTER_ADDR"] == f"{name}-0.{pod['subdomain']}"
    assert int(env["PET_MASTER_PORT"]) == service["spec"]["ports"][0]["port"] == container["ports"][0]["containerPort"]
    policy = found["NetworkPolicy"]["spec"]
    assert policy["podSelector"]["matchLabels"] == label
    assert policy["ingress"] == [{"from": [{"podSelector": {"matchLabels": label}}]}]


def test_a_pod_that_ends_is_replaced_unless_its_command_is_wrong(job: dict[str, Any]) -> None:
    pod, container, _ = pod_of(job)
    assert pod["restartPolicy"] == "Never"  # a podFailurePolicy requires it
    assert pod["terminationGracePeriodSeconds"] >= 2 * SHUTDOWN_SECONDS
    rules = {rule["action"]: rule for rule in job["spec"]["podFailurePolicy"]["rules"]}
    exits = rules["FailJob"]["onExitCodes"]
    assert (exits["containerName"], exits["values"]) == (container["name"], [2])  # argparse's; a SonorantError is 1
    assert job["spec"]["backoffLimit"] > 2 * job["spec"]["completions"]
    assert JOIN_SECONDS >= 360  # maximum delay before Kubernetes restarts a failed pod


def check_mounts(pod: dict[str, Any], containers: list[dict[str, Any]]) -> None:
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    mounts = {mount["mountPath"]: mount["name"] for container in containers for mount in container["volumeMounts"]}
    assert set(mounts.values()) == set(volumes)
    assert {"/sonorant/runs", "/sonorant/data", "/sonorant/models", "/dev/shm"} <= set(mounts)
    assert volumes[mounts["/dev/shm"]]["emptyDir"]["medium"] == "Memory"
    claim = documents("volume.yaml")["PersistentVolumeClaim"]
    assert volumes[mounts["/sonorant/runs"]]["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]
    check_confined(pod)


def check_confined(pod: dict[str, Any]) -> None:
    assert pod["securityContext"]["runAsNonRoot"] is True
    for container in [*pod["containers"], *pod.get("initContainers", [])]:
        assert container["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def test_nodes_share_what_they_must_and_run_confined(job: dict[str, Any]) -> None:
    pod, container, _ = pod_of(job)
    check_mounts(pod, [container])
    assert all(init["volumeMounts"] == container["volumeMounts"] for init in pod["initContainers"])


def patched_pod(trainjob: dict[str, Any]) -> dict[str, Any]:
    template = trainjob["spec"]["runtimePatches"][0]["trainingRuntimeSpec"]["template"]
    assert [set(template), set(template["spec"])] == [{"spec"}, {"replicatedJobs"}]
    (node,) = template["spec"]["replicatedJobs"]
    assert node["name"] == "node"  # of the runtime torch-distributed, with a container of the same name
    return node["template"]["spec"]["template"]["spec"]


def test_the_trainjob_has_only_fields_of_its_resource() -> None:
    trainjob = documents("training/trainjob.yaml")["TrainJob"]
    spec, pod = trainjob["spec"], patched_pod(trainjob)
    assert trainjob["apiVersion"] == "trainer.kubeflow.org/v1alpha1"
    assert set(spec) <= TRAINJOB["spec"]
    assert set(spec["runtimeRef"]) <= TRAINJOB["runtimeRef"]
    assert set(spec["trainer"]) <= TRAINJOB["trainer"]
    assert set(pod) <= TRAINJOB["patched pod"]
    assert all(set(container) <= TRAINJOB["patched container"] for container in pod["containers"])
    assert not {each["name"] for each in spec["trainer"].get("env", [])} & RESERVED
    check_mounts(pod, pod["containers"])
    assert pod["terminationGracePeriodSeconds"] >= 2 * SHUTDOWN_SECONDS
    assert spec["trainer"]["numProcPerNode"] == int(spec["trainer"]["resourcesPerNode"]["limits"]["nvidia.com/gpu"])


def test_what_kubeflow_sets_is_all_that_the_launcher_needs() -> None:
    trainjob = documents("training/trainjob.yaml")["TrainJob"]
    name, trainer = trainjob["metadata"]["name"], trainjob["spec"]["trainer"]
    for rank in range(trainer["numNodes"]):
        given = {
            "PET_NNODES": str(trainer["numNodes"]),
            "PET_NPROC_PER_NODE": str(trainer["numProcPerNode"]),
            "PET_NODE_RANK": str(rank),
            "PET_MASTER_ADDR": "localhost",  # there, the pod of the first node
            "PET_MASTER_PORT": "29400",
        }
        assert set(given) == RESERVED
        env = environment(given, micro_batches_per_step=16)
        assert env["SONORANT_WORLD_SIZE"] == str(trainer["numNodes"] * trainer["numProcPerNode"])
        assert env["PET_RDZV_ENDPOINT"] == "localhost:29400"
    assert re.fullmatch(r"[a-z][a-z0-9-]{0,50}", name)


@pytest.fixture
def prepare() -> dict[str, dict[str, Any]]:
    """Documents of prepare.yaml by kind and name."""
    found = {f"{each['kind']} {each['metadata']['name']}": each for each in yaml.safe_load_all(PREPARE.read_text())}
    assert len(found) == 4
    return found


def test_stage_scheduler_and_workers_reach_each_other_and_nobody_else(prepare: dict[str, dict[str, Any]]) -> None:
    service, policy = prepare["Service sonorant-prepare"]["spec"], prepare["NetworkPolicy sonorant-prepare"]["spec"]
    stage = prepare["Job sonorant-prepare"]["spec"]["template"]
    workers = prepare["Job sonorant-prepare-workers"]["spec"]["template"]
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
    assert address == f"tcp://{prepare['Service sonorant-prepare']['metadata']['name']}:{ports[0]}"
    assert processes == worker["resources"]["requests"]["cpu"], "a core each"
    assert main["volumeMounts"] == worker["volumeMounts"] and main["image"] == worker["image"]
    folders = {"/recordings", "/sonorant/data", "/sonorant/runs"}
    assert {mount["mountPath"] for mount in main["volumeMounts"]} == folders
    for template in (stage, workers):
        check_confined(template["spec"])
    for command in (scheduler["command"], worker["command"]):
        done = subprocess.run([sys.executable, *command[1:4], "--help"], capture_output=True, text=True)
        assert all(word in done.stdout for word in command[4:] if word.startswith("--")), done.stderr


@pytest.mark.parametrize("name", ["training/train-job.yaml", "training/trainjob.yaml", "prepare.yaml"])
def test_the_command_is_the_stages(name: str) -> None:
    found = list(yaml.safe_load_all((FOLDER / name).read_text()))
    [main] = [
        each for each in found if each["kind"] in ("Job", "TrainJob") and "workers" not in each["metadata"]["name"]
    ]
    command = main["spec"]["trainer"]["command"] if name.endswith("trainjob.yaml") else pod_of(main)[1]["command"]
    assert command == shlex.split(STAGES[command[2].removeprefix("tasks.")]["cmd"])
