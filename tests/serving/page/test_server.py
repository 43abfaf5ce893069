import asyncio
import base64
import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection, HTTPResponse
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest

from sonorant.audio.wav import pcm16
from sonorant.serving import page_routes
from sonorant.serving.page_routes import Arriving, More
from sonorant.serving.request import LIMITS
from sonorant.speech import Voice
from tests.support.serving import JSON, Running, ask, lines_of
from tests.support.waiting import PATIENCE, wait_until


def test_tells_of_the_voice(page: str) -> None:
    response = ask(page, "/voice")
    assert response.headers["Cache-Control"] == "no-store"
    assert json.loads(response.read()) == {
        "language": "en-us",
        "sample_rate": 16000,
        "speakers": ["anna", "ben"],
        "variants": ["fp32", "quiet"],
        "speeds": [0.5, 2.0],
        "pitches": [-12.0, 12.0],
        "energies": [-12.0, 12.0],
        "temperature": None,
        "characters": LIMITS.characters,
        "untimed": "",
    }


@pytest.mark.parametrize("path", ["/../server.py", "/server.py", "/%2e%2e/", "/page.html", "/speech"])
def test_nothing_else_is_served(page: str, path: str) -> None:
    assert ask(page, path).status in (404, 405)


@contextmanager
def arriving(page: str) -> Iterator[tuple[str, Iterator[dict[str, Any]]]]:
    """The id of an arriving text, and its lines of speech."""
    with closing(HTTPConnection(urlsplit(page).netloc, timeout=PATIENCE)) as connection:
        wish = {"text": "One ", "arrives": True, "format": "pcm"}
        connection.request("POST", "/speech", json.dumps(wish).encode(), JSON)
        with closing(connection.getresponse()) as response:
            lines = (json.loads(line) for line in response)
            yield next(lines)["id"], lines


def add(page: str, **more: Any) -> HTTPResponse:
    return ask(page, "/text", json.dumps(more).encode())


def pcm(line: dict[str, Any]) -> bytes:
    return base64.b64decode(line.get("audio", ""))


@pytest.mark.parametrize("bundle", ["two_variants", "codec_lm_bundle"])
def test_a_text_is_spoken_as_it_arrives(bundle: str, request: pytest.FixtureRequest) -> None:
    address = request.getfixturevalue("page" if bundle == "two_variants" else "codec_lm_page")
    voice, text = Voice.load(request.getfixturevalue(bundle), threads=1), "One apple. Two pears, and what else? No."
    alone = 2 * len(voice.say("One apple."))
    with arriving(address) as (name, lines):
        assert add(address, id=name, text="apple. T").status == 200
        told, sound = [], b""
        while len(sound) < alone:
            told.append(next(lines))
            sound += pcm(told[-1])
        assert len(sound) == alone
        for character in text[len("One apple. T") :]:
            add(address, id=name, text=character)
        add(address, id=name, pause=True, end=True)
        rest = list(lines)
    samples, words = voice.say_timed(text)
    sound += b"".join(map(pcm, rest))
    np.testing.assert_allclose(np.frombuffer(sound, "<i2"), pcm16(samples), atol=1)
    places = [(word["first"], word["last"]) for line in told + rest for word in line.get("words", [])]
    assert places == [(word.first, word.last) for word in words]
    assert rest[-1]["end"] and add(address, id=name, text="more").status == 400


def test_what_waits_for_text_delays_nobody_and_ends_with_its_listener(server: Running) -> None:
    with arriving(server.url) as (name, _):
        assert lines_of(server.url, "/speech", text="Hi.")[-1]["end"]
        assert add(server.url, id=name, text=3).status == 422
        assert server.service.turns.speaking == 1
    wait_until(lambda: server.service.turns.speaking == 0)
    refused = add(server.url, id=name, text="more")
    assert json.loads(refused.read())["error"]["message"] == "this text is complete; start another"


@pytest.mark.parametrize(("text", "longest"), [("", 60.0), ("a", 0.3)])
def test_a_text_that_does_not_grow_or_grows_for_ever_is_over(
    text: str, longest: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each such text occupies a place."""
    monkeypatch.setattr(page_routes, "IDLE", 0.2)
    monkeypatch.setattr(page_routes, "LONGEST", longest)

    async def typed() -> int:
        arriving, count = Arriving(), 0
        while ("close",) not in [arriving.told.get_nowait() for _ in range(arriving.told.qsize())]:
            arriving.add(More(id="one", text=text))
            count += 1
            await asyncio.sleep(0.02)
        return count

    assert asyncio.run(asyncio.wait_for(typed(), 20)) > 3
