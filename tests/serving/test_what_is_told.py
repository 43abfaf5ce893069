"""What a caller is told of a limit, and an operator on the terminal: who reaches the server, and texts if asked for."""

import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from multiprocessing import Pipe
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sonorant.files import read_json, write_json
from sonorant.runtime import Voice
from sonorant.runtime.buckets import Counters
from sonorant.serving.keys import Key, KeyFile, new_key
from sonorant.serving.server import ServeConfig
from sonorant.serving.voices import Offer
from sonorant.serving.worker import Worker
from tests.support.serving import JSON, Running, ask, running, started
from tests.support.waiting import PATIENCE, wait_until

SECRET_TEXT = "Plums and pears."
Limited = tuple[Running, dict[str, str]]
"""A server, and the headers of a caller with limits."""
LONG = "The rain had stopped, and nobody came. " * 200


@pytest.fixture
def limited(voice_bundle: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Limited]:
    """A server, and the headers of a caller who has these limits."""
    file = tmp_path / "keys.json"
    secret = new_key(file, "app")
    key = replace(Key(**read_json(file)["keys"][0]), **request.param)
    write_json(file, asdict(KeyFile(keys=(key,))))
    offers = (Offer(name="tiny", where=str(voice_bundle)),)
    with running(ServeConfig(offers=offers, workers=1, keys=file, characters=len(LONG))) as server:
        yield server, JSON | {"Authorization": f"Bearer {secret}"}


def refused(server: Running, headers: dict[str, str], text: str) -> str:
    """The one line of an answer that says when to come again."""
    answer = ask(
        server.url, "/v1/audio/speech", json.dumps({"model": "tiny", "voice": "anna", "input": text}).encode(), headers
    )
    assert answer.status == 429
    assert 1 <= int(answer.headers["Retry-After"]) <= 60
    line = json.loads(answer.read())["error"]["message"]
    assert isinstance(line, str) and "\n" not in line and text not in line
    return line


@pytest.mark.parametrize(
    ("limited", "line"),
    [({"requests_a_minute": 1}, "1 requests a minute"), ({"characters_a_minute": 20}, "20 characters a minute")],
    indirect=["limited"],
)
def test_a_limit_of_a_minute_is_told_with_when_to_come_again(limited: Limited, line: str) -> None:
    server, headers = limited
    body = json.dumps({"model": "tiny", "input": SECRET_TEXT, "voice": "anna"}).encode()
    assert ask(server.url, "/v1/audio/speech", body, headers).status == 200
    assert line in refused(server, headers, SECRET_TEXT)
    text = ask(server.url, "/metrics").read().decode()
    assert 'sonorant_requests_total{outcome="limited",voice="tiny"} 1.0' in text


@pytest.mark.parametrize("limited", [{"concurrent": 1}], indirect=True)
def test_a_limit_of_requests_at_a_time_ends_with_the_request(limited: Limited) -> None:
    server, headers = limited
    body = json.dumps({"model": "tiny", "voice": "anna", "input": LONG}).encode()
    first = ask(server.url, "/v1/audio/speech", body, headers)  # who takes nothing is spoken to for long
    assert first.status == 200
    assert "1 requests at work" in refused(server, headers, SECRET_TEXT)
    first.close()
    wait_until(lambda: server.service.turns.speaking == 0)
    short = json.dumps({"model": "tiny", "input": SECRET_TEXT, "voice": "anna"}).encode()
    assert ask(server.url, "/v1/audio/speech", short, headers).status == 200


@pytest.mark.parametrize(("host", "warned"), [("127.0.0.1", False), ("0.0.0.0", True)])
def test_who_listens_to_other_machines_is_warned_in_one_line(voice_bundle: Path, host: str, warned: bool) -> None:
    with started(f"tiny={voice_bundle}", "--workers", "1", "--host", host) as (process, _):
        process.terminate()
        assert process.wait(PATIENCE) == 0
        lines = process.stderr.read().splitlines() if process.stderr else []
    assert [line.startswith("warning: ") for line in lines] == ([True] if warned else [])


@pytest.mark.parametrize("asked", [False, True])
def test_a_text_is_logged_only_where_that_is_asked_for(voice_bundle: Path, asked: bool) -> None:
    words = ["--log-texts"] if asked else []
    with started(f"tiny={voice_bundle}", "--workers", "1", *words) as (process, url):
        body = json.dumps({"text": SECRET_TEXT}).encode()
        assert ask(url, "/v1/speech", body).read()
        process.terminate()
        assert process.wait(PATIENCE) == 0
        told = (process.stdout.read() if process.stdout else "") + (process.stderr.read() if process.stderr else "")
    assert (SECRET_TEXT in told) is asked


def test_what_a_runtime_compiled_in_service_is_told_once(voice_bundle: Path) -> None:
    """Also where two speeches end after it; ONNX Runtime, which compiles nothing, has no such counter."""
    voice = Voice.load(voice_bundle)
    late = iter([2, 2, 5])
    counters: Any = lambda: Counters(hits=0, misses=0, prepared=9, late=next(late))  # noqa: E731
    told = []
    worker = Worker(Pipe()[1], lambda _: voice)
    for runtime in (voice.runtime, SimpleNamespace(counters=counters)):
        told += [worker._compiled_late(runtime) for _ in range(3)]
    assert told == [0, 0, 0, 2, 0, 3]
