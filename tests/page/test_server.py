"""The demo page's server: speaks what `say` speaks, to this machine's own page only, and no longer than somebody
listens."""

from __future__ import annotations

import base64
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest

from sonorant.audio.wav import pcm16
from sonorant.page.server import PageServer
from sonorant.page.synthesis import LIMITS, Synthesis
from sonorant.runtime import Voice
from tests.support.command import run_command
from tests.support.waiting import PATIENCE, wait_until

LONG = "The rain had stopped, and nobody came. " * 120
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def voice(two_variants: Path) -> Voice:
    return Voice.load(two_variants, threads=1)


@pytest.fixture
def server(two_variants: Path) -> Iterator[PageServer]:
    """In this process, so that a test sees what it does."""
    with closing(Synthesis(two_variants, workers=1, waiting=1)) as synthesis, PageServer(synthesis, 0) as served:
        thread = threading.Thread(target=served.serve_forever, args=(0.05,))
        thread.start()
        yield served
        served.shutdown()
        thread.join()


def ask(
    page: str, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
) -> HTTPResponse:
    connection = HTTPConnection(urlsplit(page).netloc, timeout=PATIENCE)
    connection.request(method, path, body, headers or {})
    return connection.getresponse()


def speak(page: str, **wish: Any) -> list[dict[str, Any]]:
    response = ask(page, "POST", "/speech", json.dumps(wish).encode(), JSON)
    assert response.status == 200, response.read()
    return [json.loads(line) for line in response.read().splitlines()]


def heard(lines: list[dict[str, Any]]) -> np.ndarray:
    assert lines[-1] == {"end": True}
    return np.frombuffer(b"".join(base64.b64decode(line.get("pcm", "")) for line in lines[:-1]), "<i2")


def test_speaks_what_say_speaks(page: str, voice: Voice, two_variants: Path) -> None:
    text = "One apple. Two pears, and what else?"
    assert np.abs(heard(speak(page, text=text)).astype(int) - pcm16(voice.say(text))).max() <= 1
    as_ben = heard(speak(page, text=text, speaker="ben", speed=1.4, variant=None))
    assert np.abs(as_ben.astype(int) - pcm16(voice.say(text, "ben", 1.4))).max() <= 1
    quiet = heard(speak(page, text=text, variant="quiet"))
    assert np.abs(quiet.astype(int) - pcm16(Voice.load(two_variants, variant="quiet").say(text))).max() <= 1
    assert np.abs(quiet).max() < np.abs(heard(speak(page, text=text))).max()


def test_a_voice_of_codes_takes_seed_and_temperature_but_no_speed(codec_lm_page: str, codec_lm_bundle: Path) -> None:
    voice, text = Voice.load(codec_lm_bundle, threads=1), "One apple."
    told = json.loads(ask(codec_lm_page, "GET", "/voice").read())
    assert (told["speeds"], told["temperature"]) == (None, 0.0)
    lines = speak(codec_lm_page, text=text, seed=3, temperature=0.9)
    expected = voice.stream(text, seed=3, decoding=voice.decoding(temperature=0.9))
    assert np.abs(heard(lines).astype(int) - pcm16(np.concatenate(list(expected)))).max() <= 1
    assert [name for line in lines for name in line.get("bad", [])] == [
        finish_reason.name.lower() for finish_reason in expected.finish_reasons if finish_reason
    ]
    assert speak(codec_lm_page, text=text, speed=2.0)[-1]["error"].startswith("this voice speaks at its own pace")
    assert speak(codec_lm_page, text=text, temperature=-1)[-1]["error"].startswith("temperature must be at least 0")
    assert speak(codec_lm_page, text=text, seed=-1)[-1]["error"].startswith("seed must be 0 to")


def test_tells_of_the_voice(page: str) -> None:
    response = ask(page, "GET", "/voice")
    assert response.headers["Cache-Control"] == "no-store"
    assert json.loads(response.read()) == {
        "language": "en-us",
        "sample_rate": 16000,
        "speakers": ["anna", "ben"],
        "variants": ["fp32", "quiet"],
        "speeds": [0.5, 2.0],
        "temperature": None,
        "characters": LIMITS.characters,
    }


@pytest.mark.parametrize(
    ("wish", "line"),
    [
        ({"text": ""}, "the text is empty"),
        ({"text": "..."}, "nothing in the text can be spoken in en-us: '...'"),
        ({"text": "Hi.", "speaker": "carl"}, "no speaker 'carl'"),
        ({"text": "Hi.", "speed": 9}, "speed must be 0.5 to 2.0"),
        ({"text": "Hi.", "variant": "int3"}, "no variant 'int3'"),
        ({"text": "a " * LIMITS.characters}, f"more than {LIMITS.characters} characters"),
    ],
)
def test_what_cannot_be_spoken_is_said_in_a_line(page: str, wish: dict[str, Any], line: str) -> None:
    (answer,) = speak(page, **wish)
    assert line in answer["error"]
    assert "\n" not in answer["error"]


def test_unknown_characters_are_told(page: str) -> None:
    assert [line["unknown"] for line in speak(page, text="Hello 你 there.") if "unknown" in line] == ["你"]


def test_half_a_surrogate_pair_is_an_unknown_character_and_no_speaker(page: str) -> None:
    lines = speak(page, text="Hello \ud83d there.")
    assert [line["unknown"] for line in lines if "unknown" in line] == ["\ud83d"]
    assert lines[-1] == {"end": True}
    assert "no speaker '\ud83d'" in speak(page, text="Hi.", speaker="\ud83d")[0]["error"]
    response = ask(page, "POST", "/speech", b'{"text": "Hi.", "\\ud83d": 1}', JSON)
    assert response.status == 400
    assert "key '\ud83d' is not known" in json.loads(response.read())["error"]


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b'{"text": "Hi."}', {}, 415),
        (b'{"text": "Hi."}', {"Content-Type": "text/plain"}, 415),
        (b"{", JSON, 400),
        (b"[" * 50_000, JSON, 400),
        (b"\xff", JSON, 400),
        (b"[1]", JSON, 400),
        (b'{"text": 3}', JSON, 400),
        (b'{"text": "Hi.", "speed": true}', JSON, 400),
        (b'{"text": "Hi.", "speed": ' + b"1" * 5_000 + b"}", JSON, 400),
        (b'{"text": "Hi.", "voice": "x"}', JSON, 400),
        (b" " * 100_000, JSON, 413),
        (b'{"text": "Hi."}', JSON | {"Content-Length": "1e3"}, 411),
        (b'{"text": "Hi."}', JSON | {"Origin": "http://example.com"}, 403),
        (b'{"text": "Hi."}', JSON | {"Origin": "null"}, 403),
        (b'{"text": "Hi."}', JSON | {"Host": "example.com"}, 403),
        (b'{"text": "Hi."}', JSON | {"Host": "example.com:8765"}, 403),
    ],
    ids=lambda value: str(value)[:60],
)
def test_requests_that_the_page_does_not_make_are_refused(
    page: str, body: bytes, headers: dict[str, str], status: int
) -> None:
    response = ask(page, "POST", "/speech", body, headers)
    assert response.status == status
    assert "error" in json.loads(response.read())
    assert "Access-Control-Allow-Origin" not in response.headers


def test_a_rebound_name_gets_no_page(page: str) -> None:
    assert ask(page, "GET", "/", headers={"Host": f"evil.example:{urlsplit(page).port}"}).status == 403
    assert ask(page, "GET", "/", headers={"Host": f"localhost:{urlsplit(page).port}"}).status == 200


@pytest.mark.parametrize("path", ["/../server.py", "/server.py", "/%2e%2e/", "/page.html", "/speech"])
def test_nothing_else_is_served(page: str, path: str) -> None:
    assert ask(page, "GET", path).status == 404


def test_listens_on_loopback_only(page: str) -> None:
    port = urlsplit(page).port
    with socket.socket() as other:
        other.settimeout(5)
        assert other.connect_ex(("127.0.0.2", port)) != 0


def test_a_listener_who_goes_ends_the_speech_and_gives_up_the_place(server: PageServer) -> None:
    connection = HTTPConnection(urlsplit(server.url).netloc, timeout=PATIENCE)
    connection.request("POST", "/speech", json.dumps({"text": LONG, "speed": 0.5}), JSON)
    response = connection.getresponse()
    assert "pcm" in json.loads(response.readline())  # speech comes while most of it is not computed
    assert server.synthesis.speaking == 1
    response.close()
    connection.close()
    wait_until(lambda: server.synthesis.speaking == 0)


def test_too_many_are_turned_away_and_a_long_speech_delays_no_short_one(server: PageServer, voice: Voice) -> None:
    wish = json.dumps({"text": LONG, "speed": 0.5})
    connection = HTTPConnection(urlsplit(server.url).netloc, timeout=PATIENCE)
    connection.request("POST", "/speech", wish, JSON)
    unread = connection.getresponse()
    unread.readline()
    assert len(heard(speak(server.url, text="Hi."))) == len(
        voice.say("Hi.")
    )  # one worker, and the long speech is not over
    assert server.synthesis.speaking == 1
    with server.synthesis.admitted():
        assert ask(server.url, "POST", "/speech", wish.encode(), JSON).status == 503
    unread.close()
    connection.close()


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["--port", "TAKEN"], "is taken; give another with --port"),
        (["--port", "70000"], "port must be 0 to 65535"),
        (["--workers", "0"], "workers must be at least 1"),
        (["--voice", "nowhere"], "nowhere: no voice bundle here"),
    ],
)
def test_a_page_that_cannot_start_says_why(page: str, two_variants: Path, options: list[str], line: str) -> None:
    filled = [str(urlsplit(page).port) if option == "TAKEN" else option for option in options]
    done = run_command("sonorant.cli", "demo-page", "--voice", two_variants, *filled)
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert line in done.stderr
    assert done.stderr.count("\n") == 1
