"""Run the platform on loopback without containers: `make serve STACK=full`, `make stop`, and `upgrade` (of MLflow's
tables).

Databases, objects, logs and secrets are in one folder, runs/platform or SONORANT_PLATFORM. The services are those in
services.py; running the same command again restarts killed ones.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from infra.background import Background, call, check_free, port_from_environment
from infra.platform.env_file import make_env, write_env
from infra.platform.programs import as_postgres, postgres_program, program
from infra.platform.services import CLIENT, MLFLOW_SIGN_IN, PORTS, SERVICES, Service, filled, needed_by
from sonorant.errors import SonorantError
from sonorant.files import atomic_file, locked, read_json, write_json
from sonorant.registry.tracking.mlflow_store import models_page
from tasks.stage import run

START = "make serve STACK=full"
NATIVE = {name: service for name, service in SERVICES.items() if service.native}
JOBS = {name for name, service in NATIVE.items() if service.job}
OF_SERVERS = ("PG", "AWS_", "PREFECT_", "MLFLOW_", "MINIO_")
"""Prefixes of environment variables that configure the user's servers, not the platform's, which must not inherit
them."""


@dataclass(frozen=True)
class Platform:
    """A platform whose files are in one folder."""

    folder: Path

    @classmethod
    def here(cls) -> Platform:
        return cls(Path(os.environ.get("SONORANT_PLATFORM") or "runs/platform").resolve())

    @property
    def servers(self) -> Background:
        return Background(self.folder / "processes")

    @property
    def client_file(self) -> Path:
        """Shell script that sets the addresses and the sign-in of clients."""
        return self.folder / "client.env"

    @property
    def postgres_data(self) -> Path:
        return self.folder / "postgres" / "data"

    def words(self) -> dict[str, str]:
        """Return the values of the words in braces in the table of services. Ports are those chosen at the first
        start."""
        file = self.folder / "ports.json"
        ports = read_json(file) if file.exists() else ports_from_environment()
        words = make_env(self.folder / "secrets.env")
        for name, port in ports.items():
            words |= {f"{name}_host": "127.0.0.1", f"{name}_port": str(port)}
        return words | {
            "listen": "127.0.0.1",
            "postgres_data": str(self.postgres_data),
            "postgres_socket": "",
            "s3_data": str(self.folder / "s3"),
            "mlflow_workers": "1",
            "mlflow_hosts": "127.0.0.1:*,localhost:*",
            "mlflow_origins": "",
            "mlflow_sign_in": str(self.folder / "mlflow_sign_in.ini"),
            "prefect_public": f"http://127.0.0.1:{ports['prefect']}",
            "prefect_page": "",
            "worker_name": "local",
        }

    def command(self, service: Service) -> list[str]:
        command = self._filled(service.command)
        return [*as_postgres(self.folder / "postgres"), *command] if service.image == "postgres" else command

    def _filled(self, command: tuple[str, ...]) -> list[str]:
        first, *others = command
        words = self.words()
        return [program(first, self.postgres_data), *(filled(word, words) for word in others)]

    def environment(self, service: Service) -> dict[str, str]:
        """Return the service's variables, and this process's variables without the prefixes OF_SERVERS."""
        words = self.words()
        own = {name: filled(value, words) for name, value in service.environment.items()}
        outside = {name: value for name, value in os.environ.items() if not name.startswith(OF_SERVERS)}
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        always = {"PREFECT_HOME": str(self.folder / "prefect"), "PYTHONUNBUFFERED": "1", "PATH": path}
        return outside | always | {name: value for name, value in own.items() if value}

    def healthy(self, service: Service) -> bool:
        done = subprocess.run(self._filled(service.health), stdin=subprocess.DEVNULL, capture_output=True)
        return done.returncode == 0

    def start(self, only: Collection[str] = NATIVE) -> None:
        """Start the services in `only` that are not running, with the jobs they need, and return when all respond.

        If a port is in use or a service does not start, stops the services it started and raises SonorantError.
        """
        started: list[str] = []
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            with locked(self.folder / "start.lock"):
                self.prepare(cluster="postgres" in only)
                down = {name for name in only if not (NATIVE[name].job or self.servers.alive(name))}
                for name, service in NATIVE.items():
                    if not needed_by(name) <= {*only, *JOBS} or (service.job and not down & related(name)):
                        continue
                    self.wait_for(service.needs)  # only these: MLflow and Prefect create their tables concurrently
                    if service.job:
                        call(self.command(service), self.environment(service))
                    elif name in down:
                        started.append(name)
                        self.servers.launch(name, self.command(service), self.environment(service))
                self.wait_for(started)
        except BaseException:
            self.stop(started)
            raise

    def wait_for(self, names: Iterable[str]) -> None:
        for name in names:
            if name not in JOBS:
                self.servers.wait_for(name, partial(self.healthy, NATIVE[name]), pause=1.0)

    def prepare(self, cluster: bool = True) -> None:
        """Create missing folders and secrets, and PostgreSQL's data if `cluster`."""
        ports = self.folder / "ports.json"
        if not any(self.servers.alive(name) for name in NATIVE):
            self.stop()  # processes left by killed servers hold ports
            write_json(ports, ports_from_environment())
            for name, port in read_json(ports).items():
                check_free(port, f"SONORANT_{name.upper()}_PORT", START)
        words = self.words()
        for folder in (self.folder / "prefect", self.folder / "s3"):
            folder.mkdir(exist_ok=True, mode=0o700)
        with atomic_file(self.folder / "mlflow_sign_in.ini") as file:
            file.write_text(filled(MLFLOW_SIGN_IN, words), encoding="utf-8")
        write_env(self.client_file, {name: filled(value, words) for name, value in CLIENT.items()})
        if cluster:
            make_cluster(self.folder / "postgres", words["POSTGRES_PASSWORD"])

    def stop(self, names: list[str] | None = None) -> None:
        for name in reversed(NATIVE):
            if names is None or name in names:
                self.servers.stop(name, signal.Signals[NATIVE[name].stop_signal])

    @contextmanager
    def running(self, names: Collection[str]) -> Iterator[None]:
        """Run services within the block. Services that were already running keep running."""
        before = [name for name in names if self.servers.alive(name)]
        self.start(only=names)
        try:
            yield
        finally:
            self.stop([name for name in names if name not in before])

    def upgrade(self) -> None:
        """Upgrade MLflow's tables, because its server rejects old ones. Raises SonorantError if the server is
        running."""
        if self.servers.alive("mlflow"):
            raise SonorantError("mlflow is using these tables; stop the platform first: make stop")
        with self.running(["postgres"]):
            environment = self.environment(NATIVE["mlflow"])
            address = environment["MLFLOW_BACKEND_STORE_URI"]
            call([sys.executable, "-m", "mlflow", "db", "upgrade", address], environment)


def related(job: str) -> set[str]:
    """Return the services that a job needs or that need it; if one of them starts, the job runs again."""
    return needed_by(job) | {name for name in SERVICES if job in needed_by(name)}


def ports_from_environment() -> dict[str, int]:
    """Return ports from SONORANT_<SERVICE>_PORT, or default ports. If PostgreSQL's default port is in use, a free port
    replaces it, because only the platform uses PostgreSQL."""
    ports = {name: port_from_environment(f"SONORANT_{name.upper()}_PORT", port) for name, port in PORTS.items()}
    if not os.environ.get("SONORANT_POSTGRES_PORT"):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", ports["postgres"]))
            except OSError:
                probe.bind(("127.0.0.1", 0))
            ports["postgres"] = probe.getsockname()[1]
    return ports


def make_cluster(folder: Path, password: str) -> None:
    """Create PostgreSQL's data, with a superuser password, unless it exists."""
    folder.mkdir(mode=0o700, exist_ok=True)
    if (folder / "data" / "PG_VERSION").exists():
        return
    prefix, secret, owner = as_postgres(folder), folder / "password", folder.stat()
    secret.unlink(missing_ok=True)
    with os.fdopen(os.open(secret, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        os.fchown(file.fileno(), owner.st_uid, owner.st_gid)
        file.write(password)
    command = [*prefix, postgres_program("initdb"), "-D", str(folder / "data"), "-U", "postgres", "-E", "UTF8"]
    command += ["--locale=C.UTF-8", "--auth=scram-sha-256", f"--pwfile={secret}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, cwd="/", check=False)
    finally:
        secret.unlink()
    if done.returncode != 0:
        raise SonorantError(f"PostgreSQL's initdb failed: {' '.join(done.stderr.split())[-300:]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("start", "stop", "upgrade"))
    platform, action = Platform.here(), parser.parse_args().action
    if action == "stop":
        platform.stop()
    elif action == "upgrade":
        platform.upgrade()
    else:
        platform.start()
        uri = filled(CLIENT["MLFLOW_TRACKING_URI"], platform.words())
        print(f"MLflow's models: {models_page(uri)}", file=sys.stderr)
        print(f"set -a; . {platform.client_file}; set +a")


if __name__ == "__main__":
    run(main)
