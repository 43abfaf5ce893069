import resource
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest

from sonorant.errors import SonorantError
from sonorant.serving.gate import CONNECTIONS, allowed_connections, needed_files
from tests.support.serving import ask, started
from tests.support.waiting import PATIENCE, wait_until

BESIDE = 100


NEEDED = BESIDE + needed_files(CONNECTIONS)
INFINITY = resource.RLIM_INFINITY


@pytest.mark.parametrize(
    ("limits", "soft", "connections"),
    [
        ((100_000, 100_000), 100_000, CONNECTIONS),
        ((1024, 100_000), NEEDED, CONNECTIONS),
        ((1024, INFINITY), NEEDED, CONNECTIONS),
        ((INFINITY, INFINITY), INFINITY, CONNECTIONS),
        ((256, 1024), 1024, 439),
    ],
    ids=["enough", "raised", "no hard limit", "no limit", "not enough"],
)
def test_the_soft_limit_is_raised_as_far_as_needed_and_connections_keep_to_it(
    limits: tuple[int, int], soft: int, connections: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [limits]
    monkeypatch.setattr("sonorant.serving.gate.resource.getrlimit", lambda _: now[0])
    monkeypatch.setattr("sonorant.serving.gate.resource.setrlimit", lambda _, changed: now.insert(0, changed))
    assert allowed_connections(BESIDE) == connections
    assert now[0][0] == soft
    assert BESIDE + needed_files(connections) <= soft or soft == INFINITY


def test_a_limit_that_leaves_no_connection_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sonorant.serving.gate.resource.getrlimit", lambda _: (BESIDE, BESIDE))
    monkeypatch.setattr("sonorant.serving.gate.resource.setrlimit", lambda *_: None)
    with pytest.raises(SonorantError, match=f"raise the limit to {NEEDED}"):
        allowed_connections(BESIDE)


def limited(options: str) -> tuple[str, ...]:
    return ("sh", "-c", f'ulimit {options} && exec "$@"', "sh")


@contextmanager
def idle(url: str, count: int) -> Iterator[list[socket.socket]]:
    address = urlsplit(url)
    clients = [socket.create_connection((address.hostname, address.port), PATIENCE) for _ in range(count)]
    try:
        yield clients
    finally:
        for client in clients:
            client.close()


def closed(client: socket.socket) -> bool:
    """Whether the server has closed the connection."""
    client.settimeout(0)
    try:
        return client.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


@pytest.mark.long
def test_a_server_of_few_files_turns_away_and_goes_on(voice_bundle: Path) -> None:
    with started(f"tiny={voice_bundle}", "--workers", "1", under=limited("-n 150")) as (process, url):
        with idle(url, 22):
            wait_until(lambda: ask(url, "/healthz").status == 503)
        wait_until(lambda: ask(url, "/healthz").status == 200)
        with idle(url, 200) as clients:
            wait_until(lambda: sum(map(closed, clients)) >= 150, 20)
            assert psutil.Process(process.pid).num_fds() < 120
        wait_until(lambda: answers(url))
        process.terminate()
        assert process.wait(PATIENCE) == 0
        [line] = process.stderr.read().splitlines()
        assert "at most 21 connections at a time, not 2000: the limit is 150 open files" in line


def answers(url: str) -> bool:
    try:
        return ask(url, "/healthz").status == 200
    except ConnectionError:
        return False
