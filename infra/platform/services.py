"""Table of the platform's services, for `infra/compose.yaml` and `make serve STACK=full`.

`compose.py` and `native.py` replace words in braces: secrets, addresses, folders. `native.py` omits empty variables.
Commands never contain a secret, because `ps` shows them to all users.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sonorant import QUIET

DATABASES = {"prefect": ("prefect",), "mlflow": ("mlflow", "mlflow_auth")}
"""Databases of each server, by the server's PostgreSQL role."""
BUCKETS = ("mlflow", "dvc")
POOLS = ("sonorant", "sonorant-nodes")
"""Prefect work pools. `sonorant-nodes` is for the other machines of a training run, each with a separate project
folder."""
PORTS = {"postgres": 5432, "s3": 9000, "mlflow": 5000, "prefect": 4200, "worker": 8080}
SECRETS = {
    "POSTGRES_PASSWORD": "password of PostgreSQL's superuser, postgres",
    "PREFECT_DB_PASSWORD": "password of PostgreSQL's role prefect",
    "MLFLOW_DB_PASSWORD": "password of PostgreSQL's role mlflow",
    "S3_ACCESS_KEY": "access key of the S3 store",
    "S3_SECRET_KEY": "secret key of the S3 store, at least 8 characters",
    "PREFECT_AUTH": "sign-in of Prefect: <user>:<password>",
    "MLFLOW_ADMIN_PASSWORD": "password of MLflow's user admin, at least 12 characters; read when the store is new",
    "MLFLOW_SECRET_KEY": "key that signs the forms of MLflow's sign-in page",
}
"""Purpose of each secret in `infra/.env` and in the secrets file of `make serve STACK=full`."""
OF_DATA = ("MLFLOW_ADMIN_PASSWORD", "MLFLOW_SECRET_KEY")
"""Secrets that MLflow's databases depend on, so that a backup must contain them."""

MLFLOW_SIGN_IN = """\
[mlflow]
default_permission = READ
database_uri = postgresql+psycopg://mlflow@{postgres_host}:{postgres_port}/mlflow_auth
authorization_function = mlflow.server.auth:authenticate_request_basic_auth
auth_cache_ttl_seconds = 60
"""
"""Settings of MLflow's basic-auth. A model version has hundreds of files, each a request; the cache avoids a slow
password hash per request."""


@dataclass(frozen=True, kw_only=True)
class Service:
    command: tuple[str, ...]
    """Program and arguments. `python` is this environment's; other programs are found on PATH."""
    environment: Mapping[str, str] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    """Services that must be healthy, and jobs that must be complete, before this one starts."""
    health: tuple[str, ...] = ()
    """Command that succeeds while the service responds; empty for a job."""
    port: str = ""
    """Key in PORTS of a port to publish on loopback."""
    image: str = "platform"
    """Image: `postgres`, `platform` (Python with the servers) or `train` (the project and its dependencies)."""
    stop_signal: str = "SIGTERM"
    native: bool = True
    """Whether `make serve STACK=full` starts the service."""

    @property
    def job(self) -> bool:
        """Whether the service exits when its work is done."""
        return not self.health


S3_CLIENT = {
    "AWS_ACCESS_KEY_ID": "{S3_ACCESS_KEY}",
    "AWS_SECRET_ACCESS_KEY": "{S3_SECRET_KEY}",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_ENDPOINT_URL_S3": "http://{s3_host}:{s3_port}",
}
PREFECT_CLIENT = {
    "PREFECT_API_URL": "http://{prefect_host}:{prefect_port}/api",
    "PREFECT_API_AUTH_STRING": "{PREFECT_AUTH}",
}
MLFLOW_CLIENT = {
    "MLFLOW_TRACKING_URI": "http://{mlflow_host}:{mlflow_port}",
    "MLFLOW_TRACKING_USERNAME": "admin",
    "MLFLOW_TRACKING_PASSWORD": "{MLFLOW_ADMIN_PASSWORD}",
    # the server responds to an upload after forwarding it to the S3 store; the default 5 s are too short
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "120",
}
CLIENT = PREFECT_CLIENT | MLFLOW_CLIENT | S3_CLIENT
"""Environment variables for users, flows and CI."""


def health(server: str, path: str) -> tuple[str, ...]:
    return ("python", "-m", "infra.platform.health", f"http://127.0.0.1:{{{server}_port}}{path}")


def worker(pool: str, *, native: bool) -> Service:
    """Return a Prefect worker, which runs flows in the project folder."""
    command = ("python", "-m", "prefect", "worker", "start", "--pool", pool, "--type", "process")
    return Service(
        command=(*command, "--name", "{worker_name}", "--with-healthcheck"),
        environment=QUIET
        | CLIENT
        | {"PREFECT_WORKER_WEBSERVER_HOST": "{listen}", "PREFECT_WORKER_WEBSERVER_PORT": "{worker_port}"},
        needs=("deployments", "mlflow"),
        health=health("worker", "/health"),
        image="train",
        native=native,
    )


SERVICES: dict[str, Service] = {
    "postgres": Service(
        # the image's setup uses the socket; natively there is none, because its path may be too long
        command=("postgres", "-D", "{postgres_data}", "-c", "listen_addresses={listen}", "-c", "port={postgres_port}",
                 "-c", "unix_socket_directories={postgres_socket}", "-c", "max_connections=200"),
        environment={"POSTGRES_PASSWORD": "{POSTGRES_PASSWORD}", "PGDATA": "{postgres_data}",
                     "POSTGRES_INITDB_ARGS": "--auth=scram-sha-256"},
        health=("pg_isready", "-q", "-h", "127.0.0.1", "-p", "{postgres_port}", "-U", "postgres"),
        image="postgres",
        stop_signal="SIGINT",  # ends clients' sessions; SIGTERM would wait for them
    ),
    "databases": Service(
        command=("python", "-m", "infra.platform.databases"),
        environment={"PGHOST": "{postgres_host}", "PGPORT": "{postgres_port}", "PGUSER": "postgres",
                     "PGPASSWORD": "{POSTGRES_PASSWORD}", "PREFECT_DB_PASSWORD": "{PREFECT_DB_PASSWORD}",
                     "MLFLOW_DB_PASSWORD": "{MLFLOW_DB_PASSWORD}"},
        needs=("postgres",),
    ),
    "s3-volume": Service(
        command=("juicefs", "format", "--no-update", "--storage", "file", "--bucket", "{s3_data}/blocks",
                 "--trash-days", "0", "sqlite3://{s3_data}/volume.db", "platform"),
    ),
    "s3": Service(
        command=("juicefs", "gateway", "--multi-buckets", "--keep-etag", "--no-banner", "--no-usage-report",
                 "--no-agent", "--cache-dir", "{s3_data}/cache", "--cache-size", "0",
                 "--io-retries", "2",  # reports a full disk in 5 s; 10 retries take minutes, longer than clients wait
                 "--metrics", "127.0.0.1:0", "--log", "{s3_data}/gateway.log",
                 "sqlite3://{s3_data}/volume.db", "{listen}:{s3_port}"),
        environment={"MINIO_ROOT_USER": "{S3_ACCESS_KEY}", "MINIO_ROOT_PASSWORD": "{S3_SECRET_KEY}"},
        needs=("s3-volume",),
        health=health("s3", "/minio/health/ready"),
        port="s3",
    ),
    "buckets": Service(
        command=("python", "-m", "infra.platform.buckets"),
        environment=S3_CLIENT,
        needs=("s3",),
    ),
    "mlflow": Service(
        command=("python", "-m", "mlflow", "server", "--app-name", "basic-auth", "--workers", "{mlflow_workers}",
                 "--host", "{listen}", "--port", "{mlflow_port}", "--artifacts-destination", "s3://mlflow"),
        environment=QUIET | S3_CLIENT | {
            "MLFLOW_BACKEND_STORE_URI": "postgresql+psycopg://mlflow@{postgres_host}:{postgres_port}/mlflow",
            "PGPASSWORD": "{MLFLOW_DB_PASSWORD}",  # not in the address, which errors and logs may show
            "MLFLOW_S3_ENDPOINT_URL": "http://{s3_host}:{s3_port}",
            "MLFLOW_SERVER_ALLOWED_HOSTS": "{mlflow_hosts}",
            "MLFLOW_SERVER_CORS_ALLOWED_ORIGINS": "{mlflow_origins}",  # otherwise it rejects its own page behind TLS
            "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",  # evaluates chat traces every minute; there are none
            "MLFLOW_AUTH_CONFIG_PATH": "{mlflow_sign_in}",
            "MLFLOW_AUTH_ADMIN_USERNAME": "admin",
            "MLFLOW_AUTH_ADMIN_PASSWORD": "{MLFLOW_ADMIN_PASSWORD}",
            "MLFLOW_FLASK_SERVER_SECRET_KEY": "{MLFLOW_SECRET_KEY}",
        },
        needs=("databases", "buckets"),
        health=health("mlflow", "/health"),
        port="mlflow",
    ),
    "prefect": Service(
        command=("python", "-m", "prefect", "server", "start", "--host", "{listen}", "--port", "{prefect_port}"),
        environment=QUIET | {
            "PREFECT_SERVER_DATABASE_CONNECTION_URL":
                "postgresql+asyncpg://prefect@{postgres_host}:{postgres_port}/prefect",
            "PGPASSWORD": "{PREFECT_DB_PASSWORD}",
            "PREFECT_SERVER_API_AUTH_STRING": "{PREFECT_AUTH}",
            "PREFECT_API_URL": "",  # a server is not a client
            "PREFECT_SERVER_UI_API_URL": "{prefect_public}/api",
            "PREFECT_UI_STATIC_DIRECTORY": "{prefect_page}",  # otherwise in site-packages, which root owns in the image
        },
        needs=("databases",),
        health=health("prefect", "/api/health"),
        port="prefect",
    ),
    **{
        f"pool-{pool}": Service(
            command=("python", "-m", "prefect", "work-pool", "create", pool, "--type", "process", "--overwrite"),
            environment=QUIET | PREFECT_CLIENT,
            needs=("prefect",),
        )
        for pool in POOLS
    },
    "deployments": Service(
        command=("python", "-m", "prefect", "--no-prompt", "deploy", "--all"),
        environment=QUIET | PREFECT_CLIENT,
        needs=tuple(f"pool-{pool}" for pool in POOLS),
        image="train",
    ),
    "worker": worker(POOLS[0], native=True),
    "worker-nodes": worker(POOLS[1], native=False),
}  # fmt: skip
"""Services by name; each comes after those that it needs."""


def needed_by(name: str) -> set[str]:
    direct = set(SERVICES[name].needs)
    return direct | {each for needed in direct for each in needed_by(needed)}


def filled(text: str, words: Mapping[str, str]) -> str:
    """Return `text` with words in braces replaced."""
    return text.format_map(words)
