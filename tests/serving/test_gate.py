import asyncio
import json
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from sonorant.errors import SonorantError
from sonorant.serving.gate import Gate, Message, Receive, Send
from sonorant.serving.server import ServeConfig
from sonorant.serving.voices import Offer
from tests.support.serving import JSON, Running, ask, lines_of, serving
from tests.support.waiting import PATIENCE, wait_until

GOOD = b'{"text": "Hi."}'
LONG = json.dumps({"text": "The rain had stopped, and nobody came. " * 120, "speed": 0.5}).encode()
HEAD = b"POST /v1/speech HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"


@pytest.fixture
def impatient(voice_bundle: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    monkeypatch.setattr("sonorant.serving.gate.HEAD_SECONDS", 0.5)
    monkeypatch.setattr("sonorant.serving.gate.STALL_SECONDS", 0.5)
    monkeypatch.setattr("sonorant.serving.gate.BODY_SECONDS", 0.5)
    with serving(voice_bundle, streams=2, queue=0) as served:
        yield served


@contextmanager
def connected(server: Running) -> Iterator[socket.socket]:
    """A client with a small receive buffer."""
    with closing(socket.socket()) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(PATIENCE)
        address = urlsplit(server.url)
        client.connect((address.hostname, address.port))
        yield client


def send(client: socket.socket, body: bytes, head: bytes = HEAD) -> None:
    client.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)


def until_closed(client: socket.socket) -> bytes:
    received = b""
    try:
        while part := client.recv(65536):
            received += part
    except ConnectionResetError:
        pass
    return received


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (GOOD, {}, 415),
        (GOOD, {"Content-Type": "text/plain"}, 415),
        (b"{", JSON, 400),
        (b"[" * 50_000, JSON, 400),
        (b"\xff", JSON, 400),
        (b"[1]", JSON, 422),
        (b'{"text": "Hi.", "\\ud83d": 1}', JSON, 422),
        (b'{"text": "Hi.", "speaker": "\\ud83d"}', JSON, 400),
        (b'{"text": "Hi \\ud83d."}', JSON, 200),
        (b'{"text": "Hi.", "speed": NaN}', JSON, 422),
        (b'{"text": "Hi.", "speed": ' + b"1" * 5_000 + b"}", JSON, 400),
        (b" " * 100_000, JSON, 413),
        (GOOD, JSON | {"Origin": "http://example.com"}, 403),
        (GOOD, JSON | {"Origin": "null"}, 403),
        (GOOD, JSON | {"Host": "example.com"}, 403),
    ],
    ids=lambda value: str(value)[:40],
)
def test_nonsense_gets_a_status_and_a_line(server: Running, body: bytes, headers: dict[str, str], status: int) -> None:
    response = ask(server.url, "/v1/speech", body, headers)
    assert response.status == status
    assert len(response.read().splitlines()) == 1 or status == 200
    assert "Access-Control-Allow-Origin" not in response.headers


NAMED = ["voice.example.org", "Voice.Example.org:8443", "[2001:db8::1]:443", "127.0.0.1:1", "localhost"]


def test_a_server_goes_by_the_names_that_it_is_given_and_by_no_other(voice_bundle: Path) -> None:
    """Behind a TLS proxy the server accepts only the public name, and pages of that name."""
    names = ("Voice.example.org", "2001:db8:0::1")
    with serving(voice_bundle, allow_hosts=names) as served:
        for host in NAMED:
            assert ask(served.url, "/v1/speech", GOOD, JSON | {"Host": host}).status == 200, host
            assert ask(served.url, "/v1/speech", GOOD, JSON | {"Host": host, "Origin": f"https://{host}"}).status == 200
        for host in ("example.org", "voice.example.org.evil.example", "voice.example.org:1:2", "", "[2001:db8::2]"):
            refused = ask(served.url, "/v1/speech", GOOD, JSON | {"Host": host})
            assert refused.status == 403, host
            assert b"--allow-host" in refused.read()
        elsewhere = JSON | {"Host": NAMED[0], "Origin": "https://example.org"}
        assert ask(served.url, "/v1/speech", GOOD, elsewhere).status == 403


@pytest.mark.parametrize(
    ("reached", "host", "status"),
    [
        ("::ffff:10.0.0.5", "10.0.0.5", 200),
        ("::ffff:10.0.0.5", "10.0.0.5:8000", 200),
        ("::ffff:10.0.0.5", "[::ffff:10.0.0.5]:8000", 200),
        ("::ffff:10.0.0.5", "10.0.0.6", 403),
        ("::ffff:10.0.0.5", "", 403),
        ("2001:db8::1", "[2001:DB8:0::1]:8000", 200),
        ("2001:db8::1", "[2001:db8::2]", 403),
    ],
)
def test_an_address_is_the_same_however_it_is_written(reached: str, host: str, status: int) -> None:
    """A server on :: sees IPv4 addresses as IPv6."""
    sent: list[int] = []

    async def app(scope: Message, receive: Receive, send: Send) -> None:
        sent.append(200)

    async def receive() -> Message:
        raise AssertionError("a GET has no body")

    async def send(message: Message) -> None:
        sent.extend([message["status"]] if "status" in message else [])

    gate = Gate(app, most_bytes=100, hosts=frozenset(["voice.example.org"]))
    headers = [(b"host", host.encode())]
    asyncio.run(gate({"type": "http", "method": "GET", "headers": headers, "server": (reached, 8000)}, receive, send))
    assert sent == [status]


@pytest.mark.parametrize(
    "name", ["", "https://a.example", "a.example:443", "a.example/voice", "a b", "*.example", "ä.example"]
)
def test_what_is_no_host_name_is_refused_in_a_line(name: str) -> None:
    with pytest.raises(SonorantError, match="is not a host name; give it without scheme, port and path"):
        ServeConfig(offers=(Offer(name="tiny", where="voice"),), allow_hosts=(name,))


@pytest.mark.parametrize("length", [40_000, 1_000_000])
def test_huge_headers_are_refused(server: Running, length: int) -> None:
    with connected(server) as client:
        client.sendall(HEAD + b"X-Long: ")
        with suppress(ConnectionError):
            client.sendall(b"x" * length + b"\r\nContent-Length: 0\r\n\r\n")
        answer = until_closed(client)
    # The rest of the larger one is not read; the answer may be lost.
    assert answer.split(b" ")[1] in (b"400", b"431") if answer or length < 100_000 else answer == b""


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"Content-Length: 10000000\r\n\r\n{", b" 413 "),
        (b"Transfer-Encoding: chunked\r\n\r\n20000\r\n" + b" " * 0x20000 + b"\r\n", b" 413 "),
        (b"Content-Length: 100\r\n\r\n{", b" 408 "),
        (b"X-Begun: ", b""),
    ],
    ids=["ten megabytes", "too many chunks", "no body", "no head"],
)
def test_a_body_too_large_or_too_slow_ends_its_connection(impatient: Running, sent: bytes, status: bytes) -> None:
    with connected(impatient) as client:
        client.sendall(HEAD + sent)
        assert status in (until_closed(client).splitlines() or [b""])[0]


def test_a_listener_who_stalls_holds_nothing(impatient: Running) -> None:
    with connected(impatient) as client:
        send(client, LONG)
        assert client.recv(20).startswith(b"HTTP/1.1 200")
        wait_until(lambda: impatient.service.turns.speaking == 0)
    assert ask(impatient.url, "/v1/speech", GOOD).status == 200


def test_a_long_speech_delays_no_short_one(server: Running) -> None:
    with connected(server) as client:
        send(client, LONG)
        assert client.recv(20).startswith(b"HTTP/1.1 200")
        assert lines_of(server.url, "/v1/speech", text="Hi.")[-1]["end"]
        assert server.service.turns.speaking == 1
    wait_until(lambda: server.service.turns.speaking == 0)


def test_a_listener_who_leaves_ends_the_work_and_is_counted(impatient: Running) -> None:
    with connected(impatient) as client:
        send(client, LONG)
        assert client.recv(20).startswith(b"HTTP/1.1 200")
    wait_until(lambda: impatient.service.turns.speaking == 0)
    assert b'sonorant_requests_total{outcome="cancelled",voice="tiny"} 1.0' in ask(impatient.url, "/metrics").read()


def test_a_client_that_closes_its_sending_side_is_answered(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sonorant.serving.gate.LEFT_SECONDS", 0.1)
    with connected(server) as client:
        send(client, json.dumps({"text": "The rain had stopped, and nobody came. " * 24, "speed": 0.5}).encode())
        client.shutdown(socket.SHUT_WR)
        answer = until_closed(client)
        assert b"HTTP/1.1 200" in answer and b'"end": true' in answer


def test_a_client_that_leaves_is_noticed_while_it_waits(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sonorant.serving.gate.LEFT_SECONDS", 0.1)
    turns = server.service.turns
    with busy(server) as (_, waiting):
        waiting.close()
        wait_until(lambda: turns.waiting == 0)
        assert turns.speaking == 2


def test_an_arriving_text_ends_with_its_client(server: Running) -> None:
    with connected(server) as client:
        send(client, b'{"text": "", "arrives": true}', HEAD.replace(b"/v1", b""))
        wait_until(lambda: server.service.turns.speaking == 1)
        client.shutdown(socket.SHUT_WR)
        wait_until(lambda: server.service.turns.speaking == 0)


@contextmanager
def busy(server: Running) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Both places taken and the queue of one full: a served client and a waiting one."""
    with connected(server) as one, connected(server) as two, connected(server) as waiting:
        for client in (one, two):
            send(client, LONG)
            assert client.recv(20).startswith(b"HTTP/1.1 200")
        send(waiting, GOOD)
        wait_until(lambda: server.service.turns.waiting == 1)
        yield one, waiting
    wait_until(lambda: server.service.turns.speaking == 0)


def test_what_is_said_of_a_text_is_not_logged(server: Running, caplog: pytest.LogCaptureFixture) -> None:
    *_, last = lines_of(server.url, "/v1/speech", text="One apple. Two pears. " + "secret" * 100, format="pcm")
    assert "secret" in last["error"]
    assert [record.message for record in caplog.records] == ["a speech broke off"]


def test_too_many_are_turned_away_and_told_when_to_come_again(server: Running) -> None:
    with busy(server) as (one, waiting):
        response = ask(server.url, "/v1/speech", GOOD)
        assert (response.status, response.headers["Retry-After"]) == (503, "1")
        one.close()
        assert waiting.recv(20).startswith(b"HTTP/1.1 200")
