"""The platform on Kubernetes: kustomize folders, Prefect's job template and chart values, against strict schemas.
Not run on a cluster."""

import copy
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from infra.platform.services import CLIENT, SECRETS, SERVICES
from sonorant.training.distributed.launch import Node
from tests.infra.test_kubernetes import documents, pod_of, refusals
from tests.support.imports import ROOT

INFRA = ROOT / "infra"
TEMPLATE = json.loads((INFRA / "kubernetes/base-job-template.json").read_text(encoding="utf-8"))
VALUES = sorted((INFRA / "kubernetes/values").glob("*.yaml"))
SECRET = re.compile(r"password|secret_?key|auth_?string|token", re.IGNORECASE)


def built(folder: str) -> list[dict[str, Any]]:
    """Documents that the official kustomize builds from a folder; Kubernetes defines all their fields."""
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl, which has the official kustomize, is not installed")
    done = subprocess.run(["kubectl", "kustomize", str(ROOT / folder)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    made = list(yaml.safe_load_all(done.stdout))
    assert [refusals(each) for each in made] == [[]] * len(made)
    return made


def kinds(made: list[dict[str, Any]]) -> list[str]:
    return sorted(each["kind"] for each in made)


def applied(page: str) -> list[str]:
    """Folders that a page applies with kustomize."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return re.findall(r"^kubectl apply (?:.* )?-k (\S+)", text, flags=re.MULTILINE)


def test_what_sets_the_platform_up_starts_no_training() -> None:
    (folder,) = applied("platform.md")
    assert kinds(built(folder)) == ["NetworkPolicy", "NetworkPolicy", "PersistentVolumeClaim"]


@pytest.mark.parametrize("name", ["cpu", "gpu"])
def test_an_overlay_is_a_training_without_the_volume_that_outlives_it(name: str) -> None:
    folder = f"infra/overlays/train-{name}"
    assert folder in applied("training.md")
    made = built(folder)
    assert kinds(made) == ["Job", "NetworkPolicy", "Service"]
    pod, container, env = pod_of(next(each for each in made if each["kind"] == "Job"))
    assert Node.of(env | {"PET_NODE_RANK": "0"}).count == 2, "what an overlay leaves out stays"
    assert container["image"] == "sonorant-train:0.1.0" == pod["initContainers"][0]["image"]
    limits = container["resources"]["limits"]
    processes = limits.get("nvidia.com/gpu") if name == "gpu" else limits["cpu"]
    assert processes == env["PET_NPROC_PER_NODE"], "a process a GPU, or a core"
    assert ("nvidia.com/gpu" in limits) is ("tolerations" in pod) is (name == "gpu")


def rendered(**values: Any) -> dict[str, Any]:
    """The job that Prefect's worker would create from the template with these values."""
    templating = pytest.importorskip("prefect.utilities.templating")
    properties = TEMPLATE["variables"]["properties"]
    defaults = {name: each["default"] for name, each in properties.items() if "default" in each}
    own = {"name": "run", "command": ["prefect", "flow-run", "execute"]} | values
    return dict(templating.apply_values(TEMPLATE["job_configuration"]["job_manifest"], defaults | own))


def as_kubernetes_takes_it(job: dict[str, Any]) -> dict[str, Any]:
    """Remove two pod fields that Prefect's worker requires and Kubernetes ignores, and convert variables to a
    list, as the worker does."""
    job = copy.deepcopy(job)
    pod = job["spec"]["template"]["spec"]
    assert (pod.pop("parallelism"), pod.pop("completions")) == (1, 1)
    container = pod["containers"][0]
    container["env"] = [{"name": name, "value": value} for name, value in container["env"].items()]
    return job


@pytest.mark.parametrize("values", [{}, {"gpus": "0", "env": {"A": "b"}, "shared_memory": "1Gi"}])
def test_the_job_of_prefects_worker_is_one_that_kubernetes_knows(values: dict[str, Any]) -> None:
    job = as_kubernetes_takes_it(rendered(**values))
    assert refusals(job) == []
    pod = job["spec"]["template"]["spec"]
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    claim = documents("volume.yaml")["PersistentVolumeClaim"]["metadata"]["name"]
    assert volumes["shared"]["persistentVolumeClaim"]["claimName"] == claim
    memory = {"medium": "Memory", "sizeLimit": values.get("shared_memory", "8Gi")}
    assert volumes["shm"]["emptyDir"] == memory
    container = pod["containers"][0]
    assert container["resources"]["limits"]["nvidia.com/gpu"] == values.get("gpus", "1")
    assert pod["securityContext"]["runAsNonRoot"] and container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    labels = job["spec"]["template"]["metadata"]["labels"]
    policy = next(each for each in policies() if each["metadata"]["name"] == "sonorant-flows")
    assert policy["spec"]["podSelector"]["matchLabels"] == labels, "the network policy is for these pods"
    assert policy["spec"]["ingress"] == [] and policy["spec"]["policyTypes"] == ["Ingress", "Egress"]


def test_each_placeholder_is_a_variable_and_each_variable_is_used() -> None:
    used = set(re.findall(r"\{\{ (\w+) \}\}", json.dumps(TEMPLATE["job_configuration"])))
    assert used == set(TEMPLATE["variables"]["properties"])


def test_a_flow_has_the_variables_that_it_has_natively() -> None:
    """The secret sets addresses and keys, the template what is the same everywhere; Prefect sets its own address."""
    page = (ROOT / "docs/platform.md").read_text(encoding="utf-8")
    row = re.search(r"^\| `sonorant-client` \| (.+) \|$", page, flags=re.MULTILINE)
    assert row
    secret, given = set(re.findall(r"`(\w+)`", row[1])), rendered()["spec"]["template"]["spec"]["containers"][0]["env"]
    assert CLIENT.keys() - secret - given.keys() == {"PREFECT_API_URL"}
    assert given == {name: CLIENT[name] for name in given}
    differs = {name for name, value in CLIENT.items() if "{" in value}  # by place
    assert not given.keys() & differs


def policies() -> Iterator[dict[str, Any]]:
    return yaml.safe_load_all((INFRA / "kubernetes/network-policies.yaml").read_text(encoding="utf-8"))


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else []
    for key, each in items:
        yield from leaves(each, f"{path}.{key}")
    if not isinstance(value, (dict, list)):
        yield path, value


@pytest.mark.parametrize("file", VALUES, ids=lambda file: file.name)
def test_values_name_secrets_and_hold_none(file: Any) -> None:
    values = yaml.safe_load(file.read_text(encoding="utf-8"))
    for path, value in leaves(values):
        if SECRET.search(path):
            assert value is False or str(value).startswith("sonorant-") or path.endswith(".key"), f"{path}: {value}"
        assert "://" not in str(value) or "@" not in str(value), path


def of_mlflow() -> tuple[dict[str, str], set[str]]:
    """Variables set by MLflow's chart values, and its secret's keys in docs/platform.md."""
    values = yaml.safe_load((INFRA / "kubernetes/values/mlflow.yaml").read_text(encoding="utf-8"))
    (secret,) = [each["secretRef"]["name"] for each in values["envFrom"]]
    page = (ROOT / "docs/platform.md").read_text(encoding="utf-8")
    row = re.search(rf"^\| `{secret}` \| (.+) \|$", page, flags=re.MULTILINE)
    assert row
    return {each["name"]: each["value"] for each in values["env"]}, set(re.findall(r"`(\w+)`", row[1]))


def test_mlflow_has_every_variable_of_the_table_and_secrets_by_reference() -> None:
    given, secret = of_mlflow()
    named = ("MLFLOW_", "PGPASSWORD")
    table = {name: value for name, value in SERVICES["mlflow"].environment.items() if name.startswith(named)}
    by_chart = {"MLFLOW_BACKEND_STORE_URI"}  # of mlflow.backendStoreUriFrom
    assert table.keys() - given.keys() - secret == by_chart
    private = {name for name, value in table.items() if any(f"{{{each}}}" in value for each in SECRETS)}
    assert private <= secret and not private & given.keys()


def test_mlflow_answers_to_the_names_of_its_service_and_its_own_page_may_write(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mlflow")
    from mlflow.server import security_utils as security

    for name, value in of_mlflow()[0].items():
        monkeypatch.setenv(name, value)
    hosts = security.get_allowed_hosts_from_env() or security.get_default_allowed_hosts()
    within = ["mlflow:5000", "mlflow.sonorant:5000", "mlflow.sonorant.svc.cluster.local:5000"]
    called = [*within, "localhost:5000", "mlflow.example"]
    assert [name for name in called if not security.is_allowed_host_header(hosts, name)] == []
    assert not security.is_allowed_host_header(hosts, "mlflow.elsewhere:5000")
    origins = security.get_allowed_origins_from_env()
    assert not security.should_block_cors_request("https://mlflow.example", "POST", origins)
    assert security.should_block_cors_request("https://other.example", "POST", origins)


def test_values_and_policies_agree_on_labels_and_versions() -> None:
    values = {file.stem: yaml.safe_load(file.read_text(encoding="utf-8")) for file in VALUES}
    lock = dict(re.findall(r"^([\w-]+)==(\S+)$", (ROOT / "requirements.lock").read_text(), flags=re.MULTILINE))
    assert values["prefect-server"]["global"]["prefect"]["image"]["prefectTag"].startswith(f"{lock['prefect']}-")
    assert values["prefect-worker"]["worker"]["image"]["prefectTag"].startswith(f"{lock['prefect']}-")
    assert values["mlflow"]["image"]["tag"].startswith(f"v{lock['mlflow']}")
    servers = next(each["spec"] for each in policies() if each["metadata"]["name"] == "sonorant-servers")
    label = servers["podSelector"]["matchLabels"]
    assert values["prefect-server"]["server"]["podLabels"] == values["mlflow"]["podLabels"] == label
    assert values["prefect-worker"]["worker"]["apiConfig"] == "selfHostedServer"  # its name in charts since 2025.3
    assert values["prefect-worker"]["worker"]["selfHostedServerApiConfig"]["apiUrl"].endswith(":4200/api")
    client = values["prefect-worker"]["worker"]["podLabels"]
    assert {"podSelector": {"matchLabels": client}} in servers["ingress"][0]["from"]
