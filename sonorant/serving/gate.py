"""Checks before the routes: connections, deadlines, Host, Origin, size and format of the body."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import logging
import re
import resource
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from http import HTTPStatus
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from sonorant.errors import SonorantError

CONNECTIONS = 2_000
"""Maximum number of simultaneous connections; further ones get status 503."""
HEAD_SECONDS = 10.0
"""Deadline in seconds for the headers of a request."""
STALL_SECONDS = 30.0
"""Deadline in seconds for a client to read the buffered 50 KB."""
BODY_SECONDS = 10.0
"""Deadline in seconds for the whole body."""
LEFT_SECONDS = 2.0
"""Seconds between checks whether a client that closed its sending side has left."""
ENDS = "sonorant.ends"
"""Key in the scope of a request that ends when the client closes its sending side."""
HEAD_BYTES = 32 * 1024
"""Maximum size in bytes of all headers together."""
JSON = "application/json"
LOOPBACK = frozenset(("127.0.0.1", "localhost", "[::1]"))

_log = logging.getLogger(__name__)

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


def error_body(status: int, line: str, param: str | None = None) -> dict[str, Any]:
    """Return an error in the format of OpenAI's API."""
    kind = "invalid_request_error" if status < 500 else "server_error"
    return {"error": {"message": line, "type": kind, "param": param, "code": None}}


def host_name(text: str) -> str:
    """Normalise a host name or address without a port. Raises SonorantError if it is neither."""
    with suppress(ValueError):
        address = ipaddress.ip_address(text.strip("[]"))
        if address.version == 4:
            return str(address)
        return str(address.ipv4_mapped or f"[{address}]")  # an IPv6 socket reports IPv4 as ::ffff:10.0.0.5
    if not re.fullmatch(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*", text.lower()):
        raise SonorantError(f"'{text}' is not a host name; give it without scheme, port and path: voice.example.org")
    return text.lower()


class Gate:
    """ASGI middleware that refuses invalid requests."""

    def __init__(self, app: Any, *, most_bytes: int, hosts: frozenset[str] | None) -> None:
        """`hosts`: allowed host names in lower case, to prevent DNS rebinding; None allows any."""
        self._app, self._most, self._hosts = app, most_bytes, hosts

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        refused = self._refusal(headers, scope.get("server"))
        if refused is None and scope["method"] == "POST":
            body = await self._body(headers, receive)
            if isinstance(body, bytes):
                receive = _replayed(body, receive)
            else:
                refused = body
        if refused is None:
            await self._app(scope, receive, send)
        else:
            await _answer(send, *refused)

    def _refusal(self, headers: dict[str, str], here: tuple[str, int] | None) -> tuple[HTTPStatus, str] | None:
        if sum(len(name) + len(value) for name, value in headers.items()) > HEAD_BYTES:
            return (
                HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
                f"the headers are larger than {HEAD_BYTES} bytes; shorten them",
            )
        host, origin = headers.get("host", "").lower(), headers.get("origin")
        hosts = self._hosts and self._hosts.union([host_name(here[0])] if here else [])
        if hosts is not None and hosts.isdisjoint(_names_in(host)):
            return HTTPStatus.FORBIDDEN, "unknown host name; start the server with --allow-host <name>"
        if origin is not None and origin.lower().partition("://")[2] != host:
            return HTTPStatus.FORBIDDEN, "pages of other sites may not send requests here"
        return None

    async def _body(self, headers: dict[str, str], receive: Receive) -> bytes | tuple[HTTPStatus, str]:
        if headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:
            return HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"the request must be {JSON}"
        too_large = HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the request is larger than {self._most} bytes; shorten it"
        length = headers.get("content-length", "0")
        if len(length) > 12 or int(length) > self._most:
            return too_large
        body = bytearray()
        try:
            async with asyncio.timeout(BODY_SECONDS):
                while True:
                    message = await receive()
                    body += message.get("body", b"")
                    if len(body) > self._most:
                        return too_large
                    if not message.get("more_body"):
                        break
        except TimeoutError:
            return (
                HTTPStatus.REQUEST_TIMEOUT,
                f"the request did not arrive within {BODY_SECONDS:g} seconds; send it again",
            )
        try:
            json.loads(body)
        except (ValueError, RecursionError):  # ValueError also for a number with thousands of digits
            return HTTPStatus.BAD_REQUEST, "the request is not JSON, or contains a number that is too long"
        return bytes(body)


def _names_in(host: str) -> Iterator[str]:
    for text in (host, host.rpartition(":")[0]):
        with suppress(SonorantError):
            yield host_name(text)


def _replayed(body: bytes, receive: Receive) -> Receive:
    given = False

    async def replay() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


async def _answer(send: Send, status: HTTPStatus, line: str) -> None:
    body = json.dumps(error_body(status, line)).encode()
    # Closes the connection, because the rest of the body is unread.
    head = [(b"content-type", JSON.encode()), (b"content-length", str(len(body)).encode()), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": int(status), "headers": head})
    await send({"type": "http.response.body", "body": body})


def most_held(connections: int) -> int:
    """Maximum number of open connections, including those that get status 503; others are closed immediately."""
    return connections + connections // 10 + 1


def needed_files(connections: int) -> int:
    """Number of open files for the held connections and those being closed."""
    return most_held(connections) + connections


def allowed_connections(beside: int) -> int:
    """Return the number of connections that the open-file limit allows in addition to `beside` other files; raise the
    soft limit if needed. Raises SonorantError if it allows none."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = beside + needed_files(CONNECTIONS)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return CONNECTIONS
    with suppress(ValueError, OSError):  # the system may allow less than the hard limit
        most = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        soft = most
    if soft >= needed:
        return CONNECTIONS
    connections = (soft - beside - 1) * 10 // 21
    if connections < 1:
        raise SonorantError(f"{soft} open files are too few for a server; raise the limit to {needed} (ulimit -Hn)")
    line = "at most %d connections at a time, not %d: the limit is %d open files (ulimit -Hn), but %d are needed"
    _log.warning(line, connections, CONNECTIONS, soft, needed)
    return connections


class PatientProtocol(H11Protocol):
    """uvicorn's protocol with deadlines for slow clients."""

    _head: asyncio.TimerHandle | None = None
    _stall: asyncio.TimerHandle | None = None
    _half_closed = False

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if self.limit_concurrency is not None and len(self.connections) > most_held(self.limit_concurrency):
            transport.abort()
        else:
            self._expect_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._expect_head()

    @property
    def _at_work(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _expect_head(self) -> None:
        if self._at_work and self._head:
            self._head.cancel()
            self._head = None
        elif not self._at_work and self._head is None:
            self._head = self.loop.call_later(HEAD_SECONDS, self.transport.abort)

    def eof_received(self) -> bool:  # type: ignore[override]
        """Keep a connection whose client closed only its sending side, after a whole request."""
        self._half_closed = self._at_work and not self.cycle.more_body and not self.scope.get(ENDS)
        if self._half_closed:
            self._prove_life()
        return self._half_closed

    def _prove_life(self) -> None:
        # A client that has left resets the connection when it receives something.
        waits = self._at_work and not self.cycle.response_started
        if waits and not self.transport.is_closing() and self.scope["http_version"] != "1.0":
            self.transport.write(self.conn.send(h11.InformationalResponse(status_code=100, headers=[])))
            self.loop.call_later(LEFT_SECONDS, self._prove_life)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stall = self.loop.call_later(STALL_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._stall:
            self._stall.cancel()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._half_closed and not self._at_work:
            self.transport.close()
        if self.transport.is_closing():
            self.loop.call_later(STALL_SECONDS, self.transport.abort)

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self.loop.call_later(STALL_SECONDS, self.transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        for timer in (self._head, self._stall):
            if timer:
                timer.cancel()
