"""The services of the platform: the table of `infra/compose.yaml` and `make serve STACK=full`.

`compose.py` and `native.py` fill in words in braces: secrets, addresses, folders. Natively, empty variables are not
set. No command has a secret, because `ps` shows commands to everybody.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

DATABASES = {"prefect": ("prefect",), "mlflow": ("mlflow", "mlflow_auth")}
"""The role of each server, and its databases."""
BUCKETS = ("mlflow", "dvc")
POOLS = ("sonorant", "sonorant-nodes")
"""`sonorant-nodes`: for the other machines of a training, each with a project folder of its own."""
PORTS = {"postgres": 5432, "s3": 9000, "mlflow": 5000, "prefect": 4200, "worker": 8080}
SECRETS = {
    "POSTGRES_PASSWORD": "PostgreSQL's superuser, postgres",
    "PREFECT_DB_PASSWORD": "role prefect of PostgreSQL",
    "MLFLOW_DB_PASSWORD": "role mlflow of PostgreSQL",
    "S3_ACCESS_KEY": "name under which the S3 store is used",
    "S3_SECRET_KEY": "its secret key, at least 8 characters",
    "PREFECT_AUTH": "who may use Prefect: <user>:<password>",
    "MLFLOW_ADMIN_PASSWORD": "MLflow's user admin, at least 12 characters; read when the store is new",
    "MLFLOW_SECRET_KEY": "signs the forms of MLflow's sign-in page",
}
"""Names in `infra/.env` and in the secrets file of `make serve STACK=full`, and their use."""
OF_DATA = ("MLFLOW_ADMIN_PASSWORD", "MLFLOW_SECRET_KEY")
"""Secrets that belong to MLflow's databases, and so to a backup."""

MLFLOW_SIGN_IN = """\
[mlflow]
default_permission = READ
database_uri = postgresql+psycopg://mlflow@{postgres_host}:{postgres_port}/mlflow_auth
authorization_function = mlflow.server.auth:authenticate_request_basic_auth
auth_cache_ttl_seconds = 60
"""
"""Settings of MLflow's basic-auth. A version is hundreds of files, each a request; the cache saves the password's slow
hash for each."""


@dataclass(frozen=True, kw_only=True)
class Service:
    """One program of the platform."""

    command: tuple[str, ...]
    """`python` is this environment's own; other programs are found on PATH."""
    environment: Mapping[str, str] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    """Services that must be healthy, and jobs that must be done, before it starts."""
    health: tuple[str, ...] = ()
    """A command that succeeds while the service answers; empty for a job."""
    port: str = ""
    """Key of PORTS if users need it; published on loopback."""
    image: str = "platform"
    """`postgres`, `platform` (Python with the servers) or `train` (the project and all it needs)."""
    stop_signal: str = "SIGTERM"
    native: bool = True
    """Whether `make serve STACK=full` starts it."""

    @property
    def job(self) -> bool:
        """Whether it ends by itself."""
        return not self.health


QUIET = {"DO_NOT_TRACK": "1", "PREFECT_SERVER_ANALYTICS_ENABLED": "false", "MLFLOW_DISABLE_TELEMETRY": "true"}
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
    # an upload is answered once the server has handed it to the S3 store; the 5 s of a store of files are too few
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "120",
}
CLIENT = PREFECT_CLIENT | MLFLOW_CLIENT | S3_CLIENT
"""Variables of users, flows and CI."""


def health(server: str, path: str) -> tuple[str, ...]:
    return ("python", "-m", "infra.platform.health", f"http://127.0.0.1:{{{server}_port}}{path}")


def worker(pool: str, *, native: bool) -> Service:
    """A worker of Prefect, which runs flows in the project's folder."""
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
        # the socket is for the image's own set-up; natively there is none, as its path may be too long for one
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
                 "--io-retries", "2",  # of a full disk it tells in 5 s; 10 are minutes, longer than clients wait
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
            "MLFLOW_SERVER_CORS_ALLOWED_ORIGINS": "{mlflow_origins}",  # else it refuses its own page behind TLS
            "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",  # judges traces of chats every minute; there are none
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
            "PREFECT_API_URL": "",  # a server is nobody's client
            "PREFECT_SERVER_UI_API_URL": "{prefect_public}/api",
            "PREFECT_UI_STATIC_DIRECTORY": "{prefect_page}",  # else among the packages, which are root's in the image
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
"""By name, each after those that it needs."""


def needed_by(name: str) -> set[str]:
    """Names of all services that a service needs, directly or indirectly."""
    direct = set(SERVICES[name].needs)
    return direct | {each for needed in direct for each in needed_by(needed)}


def filled(text: str, words: Mapping[str, str]) -> str:
    """`text` with its words in braces replaced."""
    return text.format_map(words)
