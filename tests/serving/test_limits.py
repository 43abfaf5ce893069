"""Limits of a key: status 429, the limit's name, and Retry-After."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPResponse
from pathlib import Path

import pytest

from sonorant.files import read_json, write_json
from sonorant.serving.keys import new_key
from sonorant.serving.server import ServeConfig
from sonorant.serving.voices import Offer
from tests.support.serving import JSON, Running, ask, running


class Client:
    def __init__(self, server: Running, secret: str) -> None:
        self.server, self._headers = server, JSON | {"Authorization": f"Bearer {secret}"}

    def ask(self, text: str, path: str = "/v1/speech") -> HTTPResponse:
        wish = {"text": text, "format": "pcm"}
        if path == "/v1/audio/speech":
            wish = {"model": "tiny", "voice": "anna", "input": text, "response_format": "pcm"}
        return ask(self.server.url, path, json.dumps(wish).encode(), self._headers)

    def refusal(self, text: str, path: str = "/v1/speech") -> tuple[int, str]:
        response = self.ask(text, path)
        assert response.status == 429
        return int(response.headers["Retry-After"]), json.loads(response.read())["error"]["message"]


@contextmanager
def client(bundle: Path, folder: Path, **limits: int) -> Iterator[tuple[Client, Client]]:
    keys = folder / "keys.json"
    secrets = [new_key(keys, name) for name in ("app", "other")]
    first, second = read_json(keys)["keys"]
    write_json(keys, {"keys": [first | limits, second]})
    offers = (Offer(name="tiny", where=str(bundle)),)
    with running(ServeConfig(offers=offers, workers=1, keys=keys)) as server:
        yield Client(server, secrets[0]), Client(server, secrets[1])


@pytest.mark.parametrize("path", ["/v1/speech", "/v1/audio/speech"])
def test_more_requests_than_a_minute_has_are_told_when_to_come_again(
    voice_bundle: Path, tmp_path: Path, path: str
) -> None:
    with client(voice_bundle, tmp_path, requests_a_minute=2) as (app, other):
        for _ in range(2):
            assert app.ask("Hi.", path).status == 200
        seconds, line = app.refusal("Hi.", path)
        assert 1 <= seconds <= 60
        assert line == "the key 'app' has 2 requests a minute"
        assert other.ask("Hi.", path).status == 200, "the limit is the key's own"
        told = ask(app.server.url, "/metrics").read().decode()
        assert 'sonorant_requests_total{outcome="limited",voice="tiny"} 1.0' in told
