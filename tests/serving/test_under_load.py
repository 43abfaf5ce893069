import json
import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest

from sonorant.serving.server import Server
from tests.support.serving import ask, started
from tests.support.waiting import PATIENCE, wait_until

pytestmark = pytest.mark.long

LISTENERS = 12
"""More than one for each of two processes."""
TEXTS = [f"Number {number}. " + "The rain had stopped, and nobody came. " * 8 for number in range(LISTENERS)]
KILLS = 5


def body(text: str) -> bytes:
    return json.dumps({"text": text, "format": "pcm", "timings": False}).encode()


def wholes(url: str) -> list[bytes]:
    answers = [ask(url, "/v1/speech", body(text)).read() for text in TEXTS]
    assert all(json.loads(answer.splitlines()[-1]).get("end") for answer in answers)
    return answers


@contextmanager
def served(bundle: Path) -> Iterator[tuple[psutil.Process, str]]:
    """A server and its process, which must exit cleanly and leave no child."""
    with started(f"tiny={bundle}", "--workers", "2") as (process, url):
        server = psutil.Process(process.pid)
        children = server.children(recursive=True)
        yield server, url
        assert process.wait(PATIENCE) == 0
    wait_until(lambda: not any(child.is_running() for child in children))


def those_that_speak(server: psutil.Process) -> set[int]:
    [mother] = server.children()
    return {child.pid for child in mother.children()}


@pytest.mark.parametrize("moment", range(3))
def test_sigterm_under_load_ends_every_stream_whole_and_takes_no_new_one(voice_bundle: Path, moment: int) -> None:
    with served(voice_bundle) as (server, url):
        expected = wholes(url)
        answers = [ask(url, "/v1/speech", body(text)) for text in TEXTS]
        begun = [answer.read(10 + 300 * moment) for answer in answers]
        assert speaking(url) == LISTENERS
        server.terminate()
        wait_until(lambda: refused(url))
        time.sleep(2 * Server.GRACE_SECONDS)  # nothing has ended, because nobody reads
        assert server.status() != psutil.STATUS_ZOMBIE, "it takes no connection any more, and speaks on"
        with ThreadPoolExecutor(LISTENERS) as pool:
            heard = [first + rest for first, rest in zip(begun, pool.map(HTTPResponse.read, answers), strict=True)]
        assert heard == expected


def speaking(url: str) -> float:
    lines = ask(url, "/metrics").read().decode().splitlines()
    [value] = [line.split()[1] for line in lines if line.startswith("sonorant_speaking ")]
    return float(value)


def refused(url: str) -> bool:
    try:
        HTTPConnection(urlsplit(url).netloc, timeout=PATIENCE).connect()
    except ConnectionRefusedError:
        return True
    return False


def test_a_process_killed_under_load_is_replaced_and_every_listener_hears_all(voice_bundle: Path) -> None:
    """Two kills while listeners repeat their requests."""
    draw = random.Random(0)
    with served(voice_bundle) as (server, url):
        expected = wholes(url)
        over = threading.Event()

        def listen(number: int) -> int:
            asked = 0
            while not over.is_set():
                response = ask(url, "/v1/speech", body(TEXTS[number]))
                assert response.status == 200, response.read()
                assert response.read() == expected[number]
                asked += 1
            return asked

        with ThreadPoolExecutor(LISTENERS) as pool:
            listening = [pool.submit(listen, number) for number in range(LISTENERS)]
            try:
                for _ in range(KILLS):
                    time.sleep(draw.uniform(0.1, 0.6))
                    before = those_that_speak(server)
                    killed = draw.choice(sorted(before))
                    os.kill(killed, signal.SIGKILL)
                    wait_until(lambda before=before: len(those_that_speak(server) - before) == 1)
                    assert not any(one.done() for one in listening), "a listener lost something"
            finally:
                over.set()
            assert all(one.result(PATIENCE) >= 1 for one in listening)
        told = ask(url, "/metrics").read().decode()
        assert f"sonorant_worker_deaths_total {KILLS:.1f}" in told
        assert 'outcome="failed"' not in told
        assert json.loads(ask(url, "/readyz").read())["voices"]["tiny"]["processes"] == 2
        server.terminate()
