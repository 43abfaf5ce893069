"""The demo page's server: `say`'s speech, local pages only, stopped when the listener leaves."""

import base64
import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest

from sonorant.audio.wav import pcm16
from sonorant.serving.request import LIMITS
from sonorant.serving.server import ServeConfig
from sonorant.serving.voices import Offer
from sonorant.speech import Voice
from tests.support.command import error_line, run_command
from tests.support.serving import JSON, Running, ask, running
from tests.support.waiting import PATIENCE, wait_until

LONG = json.dumps({"text": "The rain had stopped, and nobody came. " * 120, "speed": 0.5}).encode()


@pytest.fixture(scope="module")
def voice(two_variants: Path) -> Voice:
    return Voice.load(two_variants, threads=1)


@pytest.fixture
def server(two_variants: Path) -> Iterator[Running]:
    """In this process: two requests in rotation, and no third."""
    offers = (Offer(name="voice", where=str(two_variants)),)
    with running(ServeConfig(offers=offers, workers=1, streams=2, queue=0)) as served:
        yield served


def speak(page: str, **wish: Any) -> list[dict[str, Any]]:
    response = ask(page, "/speech", json.dumps(wish).encode())
    assert response.status == 200, response.read()
    return [json.loads(line) for line in response.read().splitlines()]


def heard(lines: list[dict[str, Any]]) -> np.ndarray:
    assert lines[-1] == {"end": True}
    return np.frombuffer(b"".join(base64.b64decode(line.get("pcm", "")) for line in lines[:-1]), "<i2")


def test_speaks_what_say_speaks(page: str, voice: Voice, two_variants: Path) -> None:
    text = "One apple. Two pears, and what else?"
    plain = heard(speak(page, text=text))
    np.testing.assert_allclose(plain, pcm16(voice.say(text)), atol=1)
    as_ben = heard(speak(page, text=text, speaker="ben", speed=1.4, variant=None))
    np.testing.assert_allclose(as_ben, pcm16(voice.say(text, "ben", 1.4)), atol=1)
    quiet = heard(speak(page, text=text, variant="quiet"))
    np.testing.assert_allclose(quiet, pcm16(Voice.load(two_variants, variant="quiet").say(text)), atol=1)
    assert np.abs(quiet).max() < np.abs(plain).max()


@pytest.mark.parametrize("bundle", ["two_variants", "codec_lm_bundle"])
def test_words_come_with_the_samples_that_complete_them(bundle: str, request: pytest.FixtureRequest) -> None:
    address = request.getfixturevalue("page" if bundle == "two_variants" else "codec_lm_page")
    lines, text = speak(address, text="One apple. Two pears?"), "One apple. Two pears?"
    _, expected = Voice.load(request.getfixturevalue(bundle), threads=1).say_timed(text)
    given, words = 0, []
    for line in lines:
        given += len(base64.b64decode(line.get("pcm", ""))) // 2
        assert all(end * 16000 <= given + 1e-6 for _, _, _, end in line.get("words", []))
        words += line.get("words", [])
    assert words == [[word.first, word.last, word.start, word.end] for word in expected]


def test_a_voice_of_codes_takes_seed_and_temperature_but_no_speed(codec_lm_page: str, codec_lm_bundle: Path) -> None:
    voice, text = Voice.load(codec_lm_bundle, threads=1), "One apple."
    told = json.loads(ask(codec_lm_page, "/voice").read())
    assert (told["speeds"], told["temperature"]) == (None, 0.0)
    lines = speak(codec_lm_page, text=text, seed=3, temperature=0.9)
    expected = voice.stream(text, seed=3, decoding={"temperature": 0.9})
    np.testing.assert_allclose(heard(lines), pcm16(np.concatenate(list(expected))), atol=1)
    bad = [reason.name.lower() for reason in expected.finish_reasons if reason]
    assert [name for line in lines for name in line.get("bad", [])] == bad
    response = ask(codec_lm_page, "/speech", json.dumps({"text": text, "temperature": -1}).encode())
    assert response.status == 400
    assert json.loads(response.read())["error"]["message"].startswith("temperature must be at least 0")


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


@pytest.mark.parametrize(
    ("wish", "line"),
    [
        ({"text": "Hi.", "pitch": -13}, "pitch must be -12 to 12 semitones, not -13"),
        ({"text": "Hi.", "energy": 20}, "energy must be -12 to 12 dB, not 20"),
        ({"text": "a " * LIMITS.characters}, f"more than {LIMITS.characters} characters"),
    ],
)
def test_what_cannot_be_spoken_is_said_in_a_line(page: str, wish: dict[str, Any], line: str) -> None:
    response = ask(page, "/speech", json.dumps(wish).encode())
    assert response.status == 400
    error = json.loads(response.read())["error"]["message"]
    assert line in error
    assert "\n" not in error


def test_half_a_surrogate_pair_is_an_unknown_character_and_no_speaker(page: str) -> None:
    lines = speak(page, text="Hello \ud83d there.")
    assert [line["unknown"] for line in lines if "unknown" in line] == ["\ud83d"]
    assert lines[-1] == {"end": True}
    for body, status in ((b'{"text": "Hi.", "speaker": "\\ud83d"}', 400), (b'{"text": "Hi.", "\\ud83d": 1}', 422)):
        response = ask(page, "/speech", body)
        assert response.status == status
        assert json.loads(response.read())["error"]["message"]


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b'{"text": "Hi."}', {}, 415),
        (b"{", JSON, 400),
        (b'{"text": 3}', JSON, 422),
        (b'{"text": "Hi.", "speed": true}', JSON, 422),
        (b'{"text": "Hi.", "voice": "x"}', JSON, 422),
        (b" " * 100_000, JSON, 413),
        (b'{"text": "Hi."}', JSON | {"Origin": "http://example.com"}, 403),
        (b'{"text": "Hi."}', JSON | {"Host": "example.com:8765"}, 403),
    ],
    ids=lambda value: str(value)[:60],
)
def test_requests_that_the_page_does_not_make_are_refused(
    page: str, body: bytes, headers: dict[str, str], status: int
) -> None:
    response = ask(page, "/speech", body, headers)
    assert response.status == status
    assert "error" in json.loads(response.read())
    assert "Access-Control-Allow-Origin" not in response.headers


@pytest.mark.parametrize("path", ["/../server.py", "/server.py", "/%2e%2e/", "/page.html", "/speech"])
def test_nothing_else_is_served(page: str, path: str) -> None:
    assert ask(page, path).status in (404, 405)


@contextmanager
def long_speech(server: Running) -> Iterator[None]:
    with closing(HTTPConnection(urlsplit(server.url).netloc, timeout=PATIENCE)) as connection:
        connection.request("POST", "/speech", LONG, JSON)
        with closing(connection.getresponse()) as response:
            assert "pcm" in json.loads(response.readline())
            yield


def test_a_listener_who_goes_ends_the_speech_and_gives_up_the_place(server: Running) -> None:
    with long_speech(server):
        assert server.service.turns.speaking == 1
    wait_until(lambda: server.service.turns.speaking == 0)


def test_too_many_are_turned_away_and_a_long_speech_delays_no_short_one(server: Running, voice: Voice) -> None:
    with long_speech(server):
        said = heard(speak(server.url, text="Hi."))  # while the long speech goes on
        assert len(said) == len(voice.say("Hi.")) and server.service.turns.speaking == 1
        with long_speech(server):
            assert ask(server.url, "/speech", LONG).status == 503


@contextmanager
def arriving(page: str) -> Iterator[tuple[str, Iterator[dict[str, Any]]]]:
    """The id of an arriving text, and the lines of its speech without keep-alives."""
    with closing(HTTPConnection(urlsplit(page).netloc, timeout=PATIENCE)) as connection:
        connection.request("POST", "/speech", json.dumps({"text": "One ", "arrives": True}).encode(), JSON)
        with closing(connection.getresponse()) as response:
            lines = (json.loads(line) for line in response)
            yield next(lines)["id"], (line for line in lines if line)


def add(page: str, **more: Any) -> HTTPResponse:
    return ask(page, "/text", json.dumps(more).encode())


@pytest.mark.parametrize("bundle", ["two_variants", "codec_lm_bundle"])
def test_a_text_is_spoken_as_it_arrives(bundle: str, request: pytest.FixtureRequest) -> None:
    address = request.getfixturevalue("page" if bundle == "two_variants" else "codec_lm_page")
    voice, text = Voice.load(request.getfixturevalue(bundle), threads=1), "One apple. Two pears, and what else? No."
    alone = len(voice.say("One apple."))
    with arriving(address) as (name, lines):
        assert add(address, id=name, text="apple. T").status == 200
        told, given = [], 0
        while given < alone:
            told.append(next(lines))
            given += len(base64.b64decode(told[-1].get("pcm", ""))) // 2
        assert given == alone
        for character in text[len("One apple. T") :]:
            add(address, id=name, text=character)
        add(address, id=name, pause=True, end=True)
        told += list(lines)
    samples, words = voice.say_timed(text)
    np.testing.assert_allclose(heard(told), pcm16(samples), atol=1)
    places = [[word.first, word.last] for word in words]
    assert [word[:2] for line in told for word in line.get("words", [])] == places
    assert add(address, id=name, text="more").status == 400


def test_what_waits_for_text_delays_nobody_and_ends_with_its_listener(server: Running) -> None:
    with arriving(server.url) as (name, _):
        assert heard(speak(server.url, text="Hi.")).size
        assert add(server.url, id=name, text=3).status == 422
        assert server.service.turns.speaking == 1
    wait_until(lambda: server.service.turns.speaking == 0)
    refused = add(server.url, id=name, text="more")
    assert refused.status == 400
    assert json.loads(refused.read())["error"]["message"] == "this text is no longer spoken; begin another"


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
    done = run_command("sonorant.cli.main", "demo-page", "--voice", two_variants, *filled)
    assert line in error_line(done)
