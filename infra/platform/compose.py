"""Write `infra/compose.yaml` from the table of services: `python -m infra.platform.compose --write`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import yaml

from infra.platform.services import (
    MLFLOW_SIGN_IN,
    OF_DATA,
    PORTS,
    S3_CLIENT,
    SECRETS,
    SERVICES,
    Service,
    filled,
)
from sonorant.files import atomic_file
from tasks.stage import run

FILE = Path(__file__).parents[1] / "compose.yaml"
HEADER = """\
# The platform in containers: PostgreSQL, an S3 store, workers, MLflow and Prefect with sign-in (docs/platform.md).
# Generated from the table in infra/platform/services.py by: python -m infra.platform.compose --write
"""
SIGN_IN = "/etc/mlflow/sign_in.ini"
POSTGRES_VERSION = "15.14-bookworm"
"""Tag of the PostgreSQL image. Its major version is Debian 12's, as in tests and the platform image's clients."""
OWNER = "${SONORANT_UID:-1000}:${SONORANT_GID:-1000}"
"""User and group that own the host's folders: project and backups."""
OWNER_IN_IMAGE = "1000:1000"
"""User and group that own the folders in images, and the named volumes that Docker fills from them."""
IMAGES: dict[str, dict[str, Any]] = {
    "postgres": {"image": f"postgres:{POSTGRES_VERSION}"},
    "platform": {
        "image": "sonorant-platform:0.1.0",
        "build": {"context": "..", "dockerfile": "infra/platform/Dockerfile"},
        "cap_drop": ["ALL"],
    },
    "train": {
        "image": "sonorant-train:0.1.0",
        "build": {"context": "..", "dockerfile": "infra/Dockerfile"},
        "cap_drop": ["ALL"],
        "user": OWNER,
        "working_dir": "/sonorant",
        "shm_size": "8gb",  # for passing batches between training processes
    },
}
VOLUMES = {
    "postgres": ["postgres-data:/var/lib/postgresql/data"],
    "s3-volume": ["s3-data:/data"],
    "s3": ["s3-data:/data"],
    "worker-nodes": ["node-project:/sonorant"],  # a separate project folder; Docker fills it from the image
}
PROFILES = {"worker-nodes": ["nodes"]}
"""Profiles of services that `docker compose up` starts only if one is enabled."""
WORDS = {
    **{name: f"${{{name}:?set {name} in infra/.env}}" for name in SECRETS},
    **{f"{name}_host": name for name in PORTS},
    **{f"{name}_port": str(port) for name, port in PORTS.items()},
    "listen": "0.0.0.0",  # in a container; the host publishes only loopback
    "postgres_data": "/var/lib/postgresql/data/pgdata",
    "postgres_socket": "/var/run/postgresql",
    "s3_data": "/data",
    "mlflow_workers": "2",
    "mlflow_hosts": "mlflow:5000,localhost:*,127.0.0.1:*,${SONORANT_MLFLOW_HOST:-localhost}",
    "mlflow_origins": "https://${SONORANT_MLFLOW_HOST:-localhost}",
    "mlflow_sign_in": SIGN_IN,
    "prefect_public": "${SONORANT_PREFECT_URL:-http://127.0.0.1:4200}",
    "prefect_page": "/tmp/prefect-ui",
    "worker_name": "${SONORANT_WORKER_NAME:-compose}",
}


def document() -> dict[str, Any]:
    services = {name: service_entry(name, service) for name, service in SERVICES.items()}
    return {
        "name": "sonorant",
        "services": {**services, "backup": backup_entry(), "proxy": proxy_entry()},
        "networks": {"inside": {"internal": True}, "outside": {}},
        "volumes": {name: {} for name in ("postgres-data", "s3-data", "node-project", "proxy-data")},
        "configs": {"mlflow-sign-in": {"content": filled(MLFLOW_SIGN_IN, WORDS)}},
    }


def service_entry(name: str, service: Service) -> dict[str, Any]:
    entry = {
        **IMAGES[service.image],
        "command": [filled(word, WORDS) for word in service.command],
        "environment": {key: filled(value, WORDS) for key, value in service.environment.items()},
        "security_opt": ["no-new-privileges:true"],
        "restart": "no" if service.job else "unless-stopped",
        "stop_signal": service.stop_signal,
        "stop_grace_period": "40s",
        "networks": ["inside"] if service.image == "postgres" else ["inside", "outside"],
    }
    if service.needs:
        entry["depends_on"] = {needed: {"condition": condition(SERVICES[needed])} for needed in service.needs}
    if service.health:
        test = ["CMD", *(filled(word, WORDS) for word in service.health)]
        entry["healthcheck"] = {"test": test, "interval": "10s", "timeout": "8s", "retries": 6, "start_period": "300s"}
    if service.port:
        port = PORTS[service.port]
        entry["ports"] = [f"127.0.0.1:${{SONORANT_{service.port.upper()}_PORT:-{port}}}:{port}"]
    volumes = VOLUMES.get(name) or (["${SONORANT_PROJECT:-..}:/sonorant"] if service.image == "train" else [])
    if volumes:
        entry["volumes"] = volumes
    if name == "worker-nodes":
        entry["user"] = OWNER_IN_IMAGE  # writes only to its volume
    if name == "mlflow":
        entry["configs"] = [{"source": "mlflow-sign-in", "target": SIGN_IN}]
    if name in PROFILES:
        entry["profiles"] = PROFILES[name]
    return entry


def condition(needed: Service) -> str:
    return "service_completed_successfully" if needed.job else "service_healthy"


def backup_entry() -> dict[str, Any]:
    """Return the entry for `docker compose run --rm backup save /backup/<name>`."""
    variables = {**SERVICES["databases"].environment, **S3_CLIENT, **{name: f"{{{name}}}" for name in OF_DATA}}
    return {
        **IMAGES["platform"],
        "user": OWNER,
        "entrypoint": ["python", "-m", "infra.platform.backup"],
        "command": ["--help"],
        "environment": {key: filled(value, WORDS) for key, value in variables.items()},
        "security_opt": ["no-new-privileges:true"],
        "networks": ["inside"],
        "depends_on": {needed: {"condition": condition(SERVICES[needed])} for needed in ("databases", "buckets")},
        "volumes": ["${SONORANT_BACKUPS:-./backups}:/backup"],
        "profiles": ["maintenance"],
    }


def proxy_entry() -> dict[str, Any]:
    """Return the entry for Caddy, the TLS proxy, which a profile enables. Its command checks the host names, because
    Compose would require them even without the profile."""
    names = [f"SONORANT_{server}_HOST" for server in ("PREFECT", "MLFLOW", "S3")]
    named = " ".join(f'"$${{{name}:?set {name} in infra/.env}}"' for name in names)  # $$ is $ in the shell
    return {
        "image": "caddy:2.10.0-alpine",
        "command": ["sh", "-c", f": {named}; exec caddy run --config /etc/caddy/Caddyfile --adapter caddyfile"],
        "environment": {name: f"${{{name}:-}}" for name in names},
        "security_opt": ["no-new-privileges:true"],
        "restart": "unless-stopped",
        "networks": ["inside", "outside"],
        "depends_on": {name: {"condition": "service_healthy"} for name in ("s3", "mlflow", "prefect")},
        "ports": ["${SONORANT_BIND:-127.0.0.1}:443:443"],
        "volumes": ["./platform/Caddyfile:/etc/caddy/Caddyfile:ro", "proxy-data:/data"],
        "profiles": ["tls"],
    }


class Plain(yaml.SafeDumper):
    """YAML dumper that writes repeated values in full."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


Plain.add_representer(str, yaml.SafeDumper.represent_str)  # Prefect's commands change this for all dumpers


def written() -> str:
    return HEADER + yaml.dump(document(), Dumper=Plain, sort_keys=False, width=110)


def example() -> str:
    """Return the text of .env.example: every secret, without a value."""
    lines = ["# Do not copy this file: python -m infra.platform.env_file infra/.env creates one with random secrets."]
    lines += [f"\n# {purpose}\n{name}=" for name, purpose in SECRETS.items()]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write infra/compose.yaml and infra/.env.example")
    if not parser.parse_args().write:
        print(written(), end="")
        return
    for file, text in ((FILE, written()), (FILE.with_name(".env.example"), example())):
        with atomic_file(file) as temporary:
            temporary.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    run(main)
