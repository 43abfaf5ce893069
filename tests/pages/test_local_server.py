import json
from collections.abc import Iterator
from typing import Any

import pytest

from sonorant.errors import SonorantError
from sonorant.pages.local_server import LocalRequest, LocalServer
from tests.support.serving import JSON, ask, in_thread

BODY = bytes(range(100))


class Request(LocalRequest):
    largest = 1000

    def get(self) -> None:
        if self.path != "/sound":
            raise SonorantError("no sound")
        self.send_range(BODY, "audio/wav")

    def post(self, asked: dict[str, Any]) -> None:
        if asked:
            raise ValueError("not empty")
        raise SonorantError("full disk")


@pytest.fixture(scope="module")
def server() -> Iterator[LocalServer]:
    with in_thread(LocalServer(0, Request)) as server:
        yield server


def test_any_range_of_a_sound_is_sent(server: LocalServer) -> None:
    ranges = {"0-9": (0, 10), "44-": (44, 100), "-10": (90, 100), "5-5": (5, 6), "9-200": (9, 100)}
    for asked, (first, end) in ranges.items():
        response = ask(server.url, "/sound", headers={"Range": f"bytes={asked}"})
        assert (response.status, response.read()) == (206, BODY[first:end]), asked
        assert response.headers["Content-Range"] == f"bytes {first}-{end - 1}/100"
    for asked in ("100-", "7-3", "-0"):
        response = ask(server.url, "/sound", headers={"Range": f"bytes={asked}"})
        assert (response.status, response.headers["Content-Range"]) == (416, "bytes */100"), asked
    for asked in ("bytes=-", "bytes=0-1,4-5", "words=0-1", "bytes=" + "9" * 5000 + "-"):
        response = ask(server.url, "/sound", headers={"Range": asked})
        assert (response.status, response.read()) == (200, BODY), "an unknown form is no range"
        assert (response.headers["Content-Type"], response.headers["Accept-Ranges"]) == ("audio/wav", "bytes")


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"{}", {}, 415),
        (b"{}", {"Content-Type": "text/plain"}, 415),
        (b"[]", JSON, 400),
        (b"{", JSON, 400),
        (b"\xff", JSON, 400),
        (b"[" * 900, JSON, 400),
        (b" " * 1001, JSON, 413),
        (b"{}", JSON | {"Content-Length": "1e3"}, 411),
        (b"{}", JSON | {"Origin": "null"}, 403),
        (b"{}", JSON | {"Origin": "http://example.com"}, 403),
        (b"{}", JSON | {"Host": "example.com"}, 403),
        (b'{"a": 1}', JSON, 400),
        (b"{}", JSON, 500),
    ],
    ids=lambda value: str(value)[:60],
)
def test_requests_that_the_page_does_not_make_are_refused(
    server: LocalServer, body: bytes, headers: dict[str, str], status: int
) -> None:
    response = ask(server.url, "/", body, headers)
    assert response.status == status and "error" in json.loads(response.read())
    assert "Access-Control-Allow-Origin" not in response.headers


def test_a_rebound_name_gets_neither_style_nor_sound(server: LocalServer) -> None:
    for path in ("/style.css", "/sound"):
        assert ask(server.url, path, headers={"Host": f"evil.example:{server.server_port}"}).status == 403
        response = ask(server.url, path, headers={"Host": f"localhost:{server.server_port}"})
        assert response.status == 200
        assert response.headers["Content-Security-Policy"].startswith("default-src 'none'; script-src 'self'")
        assert response.headers["Cross-Origin-Resource-Policy"] == "same-origin"
    response = ask(server.url, "/other")
    assert (response.status, json.loads(response.read())) == (500, {"error": "no sound"})


def test_a_port_that_is_taken_or_none_is_an_error(server: LocalServer) -> None:
    with pytest.raises(SonorantError, match=f"port {server.server_port} is taken; give another"):
        LocalServer(server.server_port, Request)
    with pytest.raises(SonorantError, match="port must be 0 to 65535, not 70000"):
        LocalServer(70000, Request)
