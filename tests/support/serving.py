"""Voice servers, as a command or in this process."""

import asyncio
import json
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from sonorant.serving.server import ServeConfig, listen, living, server_of
from sonorant.serving.service import Service
from sonorant.serving.voices import Offer
from tests.support.processes import start
from tests.support.waiting import PATIENCE, wait_until

JSON = {"Content-Type": "application/json"}


@dataclass
class Running:
    """A server on a thread of this process."""

    url: str
    service: Service


@contextmanager
def running(config: ServeConfig, port: int = 0) -> Iterator[Running]:
    """Serve in this process; active requests finish at the end of the block."""
    found: dict[str, Any] = {}

    async def work() -> None:
        with listen(config.host, port) as listener:
            async with living(config) as service:
                server = server_of(config, service, lambda: None)
                found.update(url=f"http://127.0.0.1:{listener.getsockname()[1]}/", service=service, server=server)
                await server.serve(sockets=[listener])

    thread = threading.Thread(target=asyncio.run, args=(work(),))
    thread.start()
    try:
        wait_until(lambda: not thread.is_alive() or (found and found["server"].started))
        assert thread.is_alive()
        yield Running(found["url"], found["service"])
    finally:
        if found:
            found["server"].should_exit = True
        thread.join()


def serving(bundle: Path, **settings: Any) -> AbstractContextManager[Running]:
    """`running` with one voice, `tiny`, in one process."""
    offers = (Offer(name="tiny", where=str(bundle)),)
    return running(ServeConfig(offers=offers, workers=1, **settings))


@contextmanager
def in_thread(server: Any) -> Iterator[Any]:
    """Run a `LocalServer` on a separate thread."""
    with server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def started(*words: Any, under: tuple[str, ...] = (), **settings: Any) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Start `sonorant serve` on a free port; yield the process, killed afterwards, and its address. `under`: a
    command that runs the command after it."""
    command = [*under, sys.executable, "-m", "sonorant.cli.main", "serve", *map(str, words), "--port", "0"]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with start(command, **pipes, **settings) as process:
        assert process.stdout is not None and process.stderr is not None
        try:
            line = process.stdout.readline()
            found = re.search(r"http://[\d.]+:\d+/", line)
            assert found, process.stderr.read() if process.poll() is not None else line
            yield process, found[0].replace("0.0.0.0", "127.0.0.1")
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)


def ask(url: str, path: str, body: bytes | None = None, headers: dict[str, str] = JSON) -> HTTPResponse:
    """Send one request on a new connection."""
    connection = HTTPConnection(urlsplit(url).netloc, timeout=PATIENCE)
    connection.request("GET" if body is None else "POST", path, body, headers)
    return connection.getresponse()


def lines_of(url: str, path: str, **wish: Any) -> list[dict[str, Any]]:
    """The server's JSON lines; a refusal is one of them."""
    response = ask(url, path, json.dumps(wish).encode())
    return [json.loads(line) for line in response.read().splitlines()]
