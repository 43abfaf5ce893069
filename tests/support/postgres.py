"""A Postgres server of the tests' own, where its programs are installed."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.ports import free_port


def why_not() -> str | None:
    """Reason for no server, else None."""
    missing = [program for program in ("initdb", "pg_ctl") if _program(program) is None]
    if missing:
        return f"the Postgres program {missing[0]} is absent"
    try:
        import psycopg  # noqa: F401
    except ImportError:
        return "psycopg is not installed (extra postgres)"
    return None


@contextmanager
def server(folder: Path) -> Iterator[str]:
    """Address of a new server with data below `folder`, on loopback only."""
    as_owner = _not_root(folder)
    data, port = folder / "data", free_port()
    initdb, pg_ctl = str(_program("initdb")), str(_program("pg_ctl"))
    _run(as_owner, [initdb, "-D", str(data), "-U", "tuner", "--auth=trust", "-N"])
    options = f"-h 127.0.0.1 -p {port} -k {folder} -F"
    _run(as_owner, [pg_ctl, "-D", str(data), "-w", "-l", str(folder / "log"), "-o", options, "start"])
    try:
        yield f"postgresql+psycopg://tuner@127.0.0.1:{port}/postgres"
    finally:
        _run(as_owner, [pg_ctl, "-D", str(data), "-m", "immediate", "stop"])


def _program(name: str) -> str | None:
    places = [str(path) for path in sorted(Path("/usr/lib/postgresql").glob("*/bin"))]
    return shutil.which(name, path=os.pathsep.join([os.environ["PATH"], *places]))


def _not_root(folder: Path) -> list[str]:
    """What to run Postgres' programs with, which refuse to run as root."""
    if os.geteuid() != 0:
        return []
    folder.chmod(0o777)
    return ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]


def _run(prefix: list[str], command: list[str]) -> None:
    done = subprocess.run([*prefix, *command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd="/")
    assert done.returncode == 0, done.stderr
