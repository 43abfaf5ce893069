"""A PostgreSQL server for tests, where its programs are installed."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from infra.platform.programs import as_postgres, postgres_program
from sonorant.errors import SonorantError
from tests.support.ports import free_port


def why_not() -> str | None:
    """Reason for no server, else None."""
    try:
        import psycopg  # noqa: F401

        postgres_program("initdb")
    except (ImportError, SonorantError) as error:
        return f"not run: {error}"
    return None


@contextmanager
def server(folder: Path) -> Iterator[str]:
    """Address of a new server on loopback with data below `folder`."""
    as_owner, data, port = as_postgres(folder), folder / "data", free_port()

    def run(program: str, *words: str) -> None:
        command = [*as_owner, postgres_program(program), "-D", str(data), *words]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd="/")
        assert done.returncode == 0, done.stderr

    run("initdb", "-U", "tuner", "--auth=trust", "-N")
    options = f"-h 127.0.0.1 -p {port} -k {folder} -F"
    run("pg_ctl", "-w", "-l", str(folder / "log"), "-o", options, "start")
    try:
        yield f"postgresql+psycopg://tuner@127.0.0.1:{port}/postgres"
    finally:
        run("pg_ctl", "-m", "immediate", "stop")
