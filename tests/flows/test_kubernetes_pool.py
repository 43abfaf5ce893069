"""Commands of docs/platform.md that create the Kubernetes pool and its deployment, on a real Prefect server."""

import json
import os
import re
import subprocess
import sys
from typing import Any

import pytest

from tests.support.imports import ROOT

POOL, DEPLOYMENT = "sonorant-kubernetes", "train-and-export/kubernetes"
TEMPLATE = json.loads((ROOT / "infra/kubernetes/base-job-template.json").read_text(encoding="utf-8"))


def told(beginning: str) -> list[str]:
    """The page's command that starts with `beginning`."""
    page = (ROOT / "docs/platform.md").read_text(encoding="utf-8")
    (command,) = re.findall(rf"^prefect ({beginning}.*?)(?: +#.*)?$", page, flags=re.MULTILINE)
    return command.split()


@pytest.fixture
def deployed(prefect_server: str) -> dict[str, Any]:
    """The deployment as the server stores it after following the page."""

    def prefect(*words: str) -> str:
        environment = os.environ | {"PREFECT_API_URL": prefect_server, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-m", "prefect", "--no-prompt", *words]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    prefect(*told(f"work-pool create {POOL}"))
    pool = json.loads(prefect("work-pool", "inspect", POOL, "--output", "json"))
    assert (pool["type"], pool["base_job_template"]) == ("kubernetes", TEMPLATE)
    prefect(*told("deploy --all --prefect-file"))
    assert told("deployment run train-and-export/k") == ["deployment", "run", DEPLOYMENT]
    return dict(json.loads(prefect("deployment", "inspect", DEPLOYMENT, "--output", "json")))


@pytest.mark.long
def test_a_pod_finds_the_flow_where_the_image_has_the_project(deployed: dict[str, Any]) -> None:
    assert deployed["work_pool_name"] == POOL
    (step,) = deployed["pull_steps"]
    place = step["prefect.deployments.steps.set_working_directory"]["directory"]
    pod = TEMPLATE["job_configuration"]["job_manifest"]["spec"]["template"]["spec"]
    dockerfile = (ROOT / "infra/Dockerfile").read_text(encoding="utf-8")
    assert place == pod["containers"][0]["workingDir"] == re.findall(r"^WORKDIR (.+)$", dockerfile, re.MULTILINE)[-1]
    assert re.search(r"^COPY .*\. \./$", dockerfile, re.MULTILINE), "the whole project"
    assert (ROOT / deployed["entrypoint"].split(":")[0]).is_file()
